"""HTTP Message Signatures (RFC 9421): requests that prove who sent them, that nobody changed them, and that are new."""
