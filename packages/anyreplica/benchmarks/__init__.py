"""Studies: each measures one claim about this project with real processes.

From the repository's root, with the study `peers`:

PYTHONPATH=packages/anyreplica .venv/bin/python -m benchmarks.peers
"""
