"""The parts of `python -m benchmarks.peers`: the same echo on the official SDKs and on FastMCP."""
