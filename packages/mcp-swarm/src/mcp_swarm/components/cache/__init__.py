"""Cached tools: a result is reused for some time, as in `@tool(meta={"cache": {"ttl": 60}})`."""
