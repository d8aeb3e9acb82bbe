"""A tool that returns a pydantic model."""
