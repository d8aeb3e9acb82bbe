"""Signing of requests (RFC 9421) for clients and for the load test. `features/signatures` checks the signatures."""
