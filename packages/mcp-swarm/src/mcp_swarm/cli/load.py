"""The command `mcp-swarm load`, which runs the load test."""

from functools import partial

from mcp_swarm.loadtest.main import main as load

main = partial(load, program="mcp-swarm load")
