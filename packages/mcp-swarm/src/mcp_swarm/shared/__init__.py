"""What replicas share, and nothing else they do: see the table in README."""
