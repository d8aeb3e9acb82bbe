"""Everything that replicas share. `docs/explanation/architecture.md` has a table of it."""
