"""The parts of `benchmarks.asgi_servers`."""
