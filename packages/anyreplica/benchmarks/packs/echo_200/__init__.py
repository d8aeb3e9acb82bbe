"""Two hundred plain async tools."""
