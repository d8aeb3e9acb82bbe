"""The command line `anyreplica` with its commands run, check, worker, load, keys and audit."""
