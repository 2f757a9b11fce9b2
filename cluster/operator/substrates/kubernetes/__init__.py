"""The operator on Kubernetes: its client (`api`), what it follows (`reflector`), its memory, its lead, its substrate."""
