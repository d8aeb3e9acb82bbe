"""A server as an author writes it. Most tests call it."""
