"""A caller that may not pass, and what it is told."""


class Refusal(Exception):
    """Its text is for people; `error` is a word for programs (RFC 6750, section 3.1, where it has one)."""

    def __init__(self, error: str, message: str, status: int = 401) -> None:
        super().__init__(message)
        self.error = error
        self.status = status


class BadSignature(Refusal):
    """A request is not signed as it must be; `str()` says what is missing or wrong, for whoever sent it."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_signature", message)
