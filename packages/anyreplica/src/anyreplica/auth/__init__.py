"""Authentication of callers, and the tools that each caller may use."""
