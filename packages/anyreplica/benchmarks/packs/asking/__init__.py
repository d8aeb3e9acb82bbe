"""A tool that asks its client."""
