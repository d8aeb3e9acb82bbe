"""A tool with a Context."""
