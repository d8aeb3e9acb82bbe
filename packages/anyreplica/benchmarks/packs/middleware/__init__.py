"""A tool behind one FastMCP middleware."""
