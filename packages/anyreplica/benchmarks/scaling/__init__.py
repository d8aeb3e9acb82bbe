"""The parts of `python -m benchmarks.scaling`: replicas with a CPU quota each."""
