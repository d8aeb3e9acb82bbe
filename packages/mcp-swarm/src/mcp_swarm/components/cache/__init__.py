"""Cached tools: their results are used again for a while: `@tool(meta={"cache": {"ttl": 60}})`."""
