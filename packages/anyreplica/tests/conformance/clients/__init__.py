"""Conversations of the official clients with a swarm."""
