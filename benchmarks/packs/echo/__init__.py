"""Two plain async tools."""
