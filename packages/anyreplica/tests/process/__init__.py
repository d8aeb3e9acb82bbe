"""Tests of a replica as a process."""
