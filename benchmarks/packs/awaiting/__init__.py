"""A tool that gives up the event loop."""
