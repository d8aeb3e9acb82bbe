"""The parts of `python -m benchmarks.asgi_servers`: the servers and how they start."""
