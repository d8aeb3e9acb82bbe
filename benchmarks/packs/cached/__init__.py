"""A tool whose results are cached."""
