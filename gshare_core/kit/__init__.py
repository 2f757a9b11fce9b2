"""Thin help for Django: fields, clock, locks, idempotency, problem+json, keyset lists, live pokes, htmx."""
