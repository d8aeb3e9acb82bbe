"""Tests of the server card and the AI catalog."""
