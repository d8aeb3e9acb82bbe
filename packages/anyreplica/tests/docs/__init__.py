"""Tests that README.md and the pages in docs/ are correct."""
