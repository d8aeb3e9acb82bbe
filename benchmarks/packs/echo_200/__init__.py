"""Two hundred plain async tools, one of them the echo that is called."""
