"""Signing of requests (RFC 9421) for clients and for the load test. `auth/signatures` checks the signatures."""
