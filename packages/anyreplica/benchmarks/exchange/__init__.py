"""The parts of `python -m benchmarks.exchange`: the cost of `POST /mcp`, compared with `benchmarks.floor`."""
