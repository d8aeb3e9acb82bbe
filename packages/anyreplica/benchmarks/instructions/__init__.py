"""CPU instructions per call: a measure of speed that does not depend on how fast or how busy the machine is.

Valgrind's tool callgrind counts them. The server runs in one process without a network: see `driver`.
"""
