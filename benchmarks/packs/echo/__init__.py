"""Two plain async tools: the least that a server offers."""
