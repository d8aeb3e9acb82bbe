"""The parts of `benchmarks.transports`: where clients find a server, what they measure there, and what it means."""
