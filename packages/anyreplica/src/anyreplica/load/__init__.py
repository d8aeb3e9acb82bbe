"""A load test for MCP servers: a load generator, statistics and a report."""
