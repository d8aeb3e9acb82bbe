"""Tests of the other ASGI servers."""
