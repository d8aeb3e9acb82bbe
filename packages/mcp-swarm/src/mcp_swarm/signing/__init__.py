"""How a client signs its requests (RFC 9421). Clients and the load test use it; `auth/signatures` checks."""
