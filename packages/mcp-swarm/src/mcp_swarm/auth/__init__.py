"""Who a caller is, by what it sends, and what it may use."""
