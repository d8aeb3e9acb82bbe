"""The only place of the core that uses private names of FastMCP and the MCP SDK, besides `components/compat.py`."""
