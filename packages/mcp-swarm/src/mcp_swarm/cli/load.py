"""`mcp-swarm load`: the load test."""

from mcp_swarm.loadtest.main import main

__all__ = ["main"]
