"""POST /mcp: one request in, one reply out."""
