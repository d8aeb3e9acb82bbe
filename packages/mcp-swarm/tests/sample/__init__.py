"""A server as an author writes it, which most tests call."""
