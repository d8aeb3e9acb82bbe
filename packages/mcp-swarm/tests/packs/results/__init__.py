"""Small typed tools that return every kind of result, and fail in every way: both paths must tell the same of each."""
