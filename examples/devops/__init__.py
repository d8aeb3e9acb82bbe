"""Services of a Docker Swarm for agents, to look at; `tools.py` says which variables it takes."""
