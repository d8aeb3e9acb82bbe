"""Tests of the console, the page at `/`."""
