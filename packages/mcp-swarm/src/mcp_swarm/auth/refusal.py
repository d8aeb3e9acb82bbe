"""A caller that may not pass, and what it is told."""


class Refusal(Exception):
    """A caller that may not pass.

    Args:
        error: a word for programs (RFC 6750, section 3.1, where it has one).
        message: for people.
        status: of HTTP.
    """

    def __init__(self, error: str, message: str, status: int = 401) -> None:
        super().__init__(message)
        self.error = error
        self.status = status
