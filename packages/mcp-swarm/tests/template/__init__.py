"""Tests of what a user gets: make, the image, README, a project and its updates."""
