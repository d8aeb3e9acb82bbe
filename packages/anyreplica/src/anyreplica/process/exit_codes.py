"""Exit codes of processes."""

EXIT_REFUSED = 3
"""A replica refused to start. The code is uvicorn's STARTUP_FAILURE: uvicorn does not restart such a replica."""
