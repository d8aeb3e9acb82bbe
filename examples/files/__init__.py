"""Files for agents, to list, read and search; `tools.py` says which variables it takes."""
