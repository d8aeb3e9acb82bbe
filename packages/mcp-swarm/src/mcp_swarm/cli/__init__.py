"""The command line `mcp-swarm` with its commands run, check, worker, load, keys and audit."""
