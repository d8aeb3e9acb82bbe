"""The only place that uses private names of FastMCP, the MCP SDK and anyio."""
