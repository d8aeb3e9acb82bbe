"""Everything that replicas share. The README has a table of it."""
