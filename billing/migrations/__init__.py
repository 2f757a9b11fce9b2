"""Schema of billing."""
