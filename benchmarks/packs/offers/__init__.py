"""What the comparison of ASGI servers calls: a plain tool, one with much to do in a call, a document."""
