"""Tests of the discovery, containment and caching of components."""
