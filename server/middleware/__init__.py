"""The rooms that every request passes, each a pure ASGI class in a file of its own."""
