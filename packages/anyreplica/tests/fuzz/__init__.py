"""Fuzz tests: damaged input harms neither a replica nor its other callers."""
