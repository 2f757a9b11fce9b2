"""A whole GShare on one machine: private services, their supervisor, the local demo, the session proxy. No Django models here."""
