"""Who a caller is, and what it may use."""
