"""Generates the pages of docs/reference that come from the code."""
