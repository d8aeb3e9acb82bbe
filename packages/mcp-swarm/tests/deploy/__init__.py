"""The overlays of `deploy/`, with the real programs that they deploy."""
