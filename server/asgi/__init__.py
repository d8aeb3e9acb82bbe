"""Other ASGI servers that a replica can run under; uvicorn is `server.replica`'s."""
