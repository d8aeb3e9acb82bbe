"""Damaged input: what any caller may send harms neither a replica nor the callers beside it."""
