"""Schema of accounts, linear, one file per change."""
