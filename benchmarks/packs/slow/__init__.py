"""A tool that takes its time."""
