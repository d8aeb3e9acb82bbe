"""Generators of requests, valid and damaged: JSON values, JSON-RPC messages, heads and bodies of HTTP requests."""
