"""A tool that asks for the context of its call."""
