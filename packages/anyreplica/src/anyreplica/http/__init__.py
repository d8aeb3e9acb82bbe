"""HTTP for all other folders: bodies, refusals, headers, the access log, CORS, and the uvicorn protocol."""
