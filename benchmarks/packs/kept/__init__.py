"""A tool whose results are kept."""
