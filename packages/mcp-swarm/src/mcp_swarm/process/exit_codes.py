"""Exit codes of processes."""

EXIT_REFUSED = 3
"""A replica refused to start. It is uvicorn's STARTUP_FAILURE: uvicorn doesn't start such a replica again."""
