"""A synchronous tool."""
