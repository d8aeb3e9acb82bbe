"""Tests of authentication, and of the components that a caller may use."""
