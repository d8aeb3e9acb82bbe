"""Twenty tools, to be listed."""
