"""The parts of `python -m benchmarks.session_flood`: servers with and without sessions, and their clients."""
