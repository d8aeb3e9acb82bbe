"""Servers and clients that others wrote, each in an environment of its own. `make test-world` runs these tests."""
