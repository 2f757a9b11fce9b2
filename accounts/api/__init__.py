"""`/api/v1`: people, places, seats, limits, audit, notices."""
