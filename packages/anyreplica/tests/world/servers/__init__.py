"""Public servers of the package index, served by `fastmcp run` and by `anyreplica run`."""
