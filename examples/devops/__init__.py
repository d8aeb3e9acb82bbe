"""A pack with tools that inspect the services of a Docker Swarm; `tools.py` describes the settings."""
