"""Tests of README.md and of the pages in docs/: what they say holds."""
