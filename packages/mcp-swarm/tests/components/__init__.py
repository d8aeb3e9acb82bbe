"""Tests of the discovery and containment of components."""
