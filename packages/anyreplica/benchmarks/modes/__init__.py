"""The parts of `python -m benchmarks.modes`: replicas, the proxy in front of them, and clients."""
