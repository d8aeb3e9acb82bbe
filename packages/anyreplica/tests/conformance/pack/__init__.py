"""The components that the official MCP conformance suite requires of a server."""
