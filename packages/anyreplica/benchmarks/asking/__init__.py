"""The parts of `python -m benchmarks.asking`: questions of a tool to its client."""
