"""A tool with an injected dependency."""
