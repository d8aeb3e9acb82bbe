"""How functions of tool authors are marked, so that they are discovered."""

MARK = "__mcp_swarm__"
"""The attribute of a function in which its decorator keeps what it is."""
