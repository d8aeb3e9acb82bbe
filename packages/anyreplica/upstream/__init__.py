"""Run the tests of FastMCP and of the MCP SDK against anyreplica, and compare: `python -m upstream --help`."""
