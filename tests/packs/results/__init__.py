"""Small typed tools that return every kind of result, and fail in every way: both lanes must tell the same of each."""
