"""Tests of the form that studies have."""
