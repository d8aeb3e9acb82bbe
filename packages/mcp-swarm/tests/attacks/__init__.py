"""Attacks on a real replica with the memory of `stack.yml`, beside a client that behaves."""
