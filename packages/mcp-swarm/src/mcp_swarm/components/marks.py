"""The mark that a decorator of mcp-swarm leaves on a function, so that discovery finds the function."""

MARK = "__mcp_swarm__"
"""Name of the function attribute with the mark: the kind of the function and its options."""
