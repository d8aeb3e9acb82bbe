"""Tests of signed requests."""
