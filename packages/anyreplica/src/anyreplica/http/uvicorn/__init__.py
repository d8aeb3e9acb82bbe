"""HTTP/1.1 between the socket and ASGI: a protocol class for uvicorn, with the limits of this server."""
