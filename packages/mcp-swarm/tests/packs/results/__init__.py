"""Small typed tools that return every kind of result and fail in every way.

Both paths must give the same answer for each of them.
"""
