"""The components that the official MCP conformance suite asks of a server."""
