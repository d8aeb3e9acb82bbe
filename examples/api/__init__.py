"""One HTTP API for agents, to read from; `tools.py` says which variables it takes."""
