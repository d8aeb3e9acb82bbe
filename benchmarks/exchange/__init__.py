"""The parts of `python -m benchmarks.exchange`: the CPU time of `POST /mcp`, compared with a bare floor."""
