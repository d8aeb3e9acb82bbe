"""The parts of `benchmarks.scaling`: shares of a core, where replicas run, the load, the figures, the model."""
