"""Rates of callers."""
