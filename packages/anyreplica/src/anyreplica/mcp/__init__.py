"""The MCP endpoint: POST /mcp takes one JSON-RPC message and returns one reply."""
