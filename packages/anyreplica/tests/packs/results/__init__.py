"""Small tools that return every kind of result and fail in every way.

The fast path and the FastMCP path must give the same answer to a call of each tool.
"""
