"""Signing keys, for the properties that speak over the internal listener."""

from tests.apps.cluster.conftest import made_keys, signing_keys

__all__ = ["made_keys", "signing_keys"]
