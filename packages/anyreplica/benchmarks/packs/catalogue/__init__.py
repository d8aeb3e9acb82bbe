"""Twenty tools for tools/list."""
