"""A response in one ASGI message."""

WHOLE = "http.response.whole"
"""Type of a message with `status`, `headers` (without the length, and without line breaks) and all of the `body`.

ASGI has two messages for that, and each passes every room's `send`: together they took an eighth of a call's time.
"""
