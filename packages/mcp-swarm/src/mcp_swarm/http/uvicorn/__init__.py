"""HTTP/1.1 between the socket and ASGI: uvicorn's protocol, with this server's manners."""
