"""The parts of `python -m benchmarks.jobs`: callers, replicas and workers, and the measurements."""
