"""Tests of conversations in which each request may reach a different replica."""
