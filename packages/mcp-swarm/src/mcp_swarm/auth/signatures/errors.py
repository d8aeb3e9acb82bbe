"""What is wrong with a request's signature."""


class BadSignature(Exception):
    """A request is not signed as it must be; `str()` says what is missing or wrong, for whoever sent it."""
