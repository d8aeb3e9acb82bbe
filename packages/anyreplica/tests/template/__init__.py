"""Tests of the template: make, the image, the scripts, a project and its updates."""
