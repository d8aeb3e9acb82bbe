"""Tests of long jobs."""
