"""Signed requests."""
