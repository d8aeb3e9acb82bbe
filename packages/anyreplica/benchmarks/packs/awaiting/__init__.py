"""A tool that gives control to the event loop once."""
