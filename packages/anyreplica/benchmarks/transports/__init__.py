"""The parts of `python -m benchmarks.transports`: servers on each transport, and the measurement."""
