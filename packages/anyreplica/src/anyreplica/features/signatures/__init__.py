"""Checks of HTTP message signatures (RFC 9421): a signature proves the sender, the content and the age of a request."""
