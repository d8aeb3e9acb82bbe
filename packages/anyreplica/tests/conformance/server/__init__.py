"""A plain FastMCP server with everything that the official conformance suite expects of a server."""
