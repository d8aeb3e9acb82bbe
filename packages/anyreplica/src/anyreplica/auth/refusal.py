"""The exceptions that refuse a request in authentication."""


class Refusal(Exception):
    """The refusal of a request. The message of the exception is for people.

    `error` is a code for programs. It comes from RFC 6750, section 3.1, if that section has a code for the problem.
    `description` is the `error_description` of the challenge; it may be empty.
    """

    def __init__(self, error: str, message: str, status: int = 401, description: str = "") -> None:
        super().__init__(message)
        self.error = error
        self.status = status
        self.description = description


class BadSignature(Refusal):
    """A request without a valid signature. `str()` says to the client what is missing or wrong."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_signature", message)
