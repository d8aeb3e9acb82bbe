"""A FastMCP server that uses all features of FastMCP. Nothing here knows of anyreplica."""
