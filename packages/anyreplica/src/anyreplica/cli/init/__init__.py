"""The command `anyreplica init`, which writes the files that deploy an existing server to a Docker Swarm."""

from anyreplica.cli.init.command import main

__all__ = ["main"]
