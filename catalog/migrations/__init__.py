"""Schema of the catalogue."""
