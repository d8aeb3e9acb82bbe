"""Sales for agents, to ask about; `tools.py` says where they come from and which variables it takes."""
