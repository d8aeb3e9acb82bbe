"""HTTP APIs for agents to read from, and what they do with what they got; `apis.py` says which variables it takes."""
