"""Attacks on a real replica with the memory limit of `stack.yml`, while a well-behaved client makes calls."""
