"""Results of tools that are asked for again and again, kept for a while: `@tool(meta={"cache": {"ttl": 60}})`."""
