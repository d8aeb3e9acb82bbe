"""Tests of the overlays in `deploy/` with the real programs that they deploy."""
