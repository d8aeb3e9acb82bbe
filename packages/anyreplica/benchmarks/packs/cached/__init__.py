"""A tool with cached results."""
