"""Deploys the stack to a Swarm: `make deploy`."""
