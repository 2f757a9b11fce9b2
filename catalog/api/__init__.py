"""The catalogue's part of the API."""
