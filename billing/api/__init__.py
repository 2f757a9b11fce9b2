"""Billing's part of the API."""
