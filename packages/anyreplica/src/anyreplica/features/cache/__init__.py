"""Cached tools: tools with results that are reused for some time, as in `@tool(meta={"cache": {"ttl": 60}})`."""
