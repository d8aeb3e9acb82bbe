"""Servers of the MCP SDK (`MCPServer` and the low-level `Server`), served by this package.

The reference is the SDK's own app, `streamable_http_app(stateless_http=True)`.
"""
