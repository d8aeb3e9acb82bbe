"""What a run comes to: for a terminal, and as files."""
