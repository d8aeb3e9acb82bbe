"""The command line: mcp-swarm run, check, worker, load, keys, audit."""
