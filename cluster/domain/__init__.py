"""The pure part of the metal: shapes, the fleet in memory, placement. No Django, no database, no clock."""
