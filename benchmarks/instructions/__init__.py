"""Instructions of the CPU per call: a figure for speed without noise, which is the same on every machine.

Valgrind's tool callgrind counts them. The server runs in one process without a network: see `driver`.
"""
