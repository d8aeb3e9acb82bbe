"""The command `anyreplica load`, which runs the load test."""

from functools import partial

from anyreplica.load.main import main as load

main = partial(load, program="anyreplica load")
