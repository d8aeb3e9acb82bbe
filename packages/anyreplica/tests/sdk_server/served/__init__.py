"""The servers that the tests serve, as users of the MCP SDK write them."""
