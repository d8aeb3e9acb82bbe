"""The errors of a call to an API. Their texts are for the caller of the tool.

A text names the host. It never contains the path or query of the URL, or any content from the host. The text of
`NoToken` may contain an error code of OAuth.
"""

import logging
from typing import ClassVar, Literal

import httpx2
from fastmcp.exceptions import ToolError

ApiOutcome = Literal["ok", "error", "timeout", "open", "limited"]
OUTCOMES: tuple[ApiOutcome, ...] = "ok", "error", "timeout", "open", "limited"


class DownstreamError(ToolError):
    """An API gave no usable response. A tool may catch this error; otherwise the caller of the tool gets its text."""

    outcome: ClassVar[ApiOutcome] = "error"

    def __init__(self, message: str) -> None:
        # `anyreplica.components.call_limits` logs the errors that callers get.
        super().__init__(message, log_level=logging.DEBUG)


class Unreachable(DownstreamError):
    """There was no connection to the host, or the connection failed."""


class TimedOut(DownstreamError):
    """The call took too long."""

    outcome = "timeout"


class CircuitOpen(DownstreamError):
    """The circuit of the host is open, because calls to it failed."""

    outcome = "open"


class Limited(DownstreamError):
    """The limit of calls to the host is reached."""

    outcome = "limited"


class Unusable(DownstreamError):
    """The response is too large or compressed, or the URL is not valid."""


class NoToken(DownstreamError):
    """There is no token for the host: the caller has none that can be exchanged, or the exchange failed."""


class BadStatus(DownstreamError):
    """The status of the response is not 2xx."""

    def __init__(self, message: str, response: httpx2.Response | None = None) -> None:
        super().__init__(message)
        self.response = response or httpx2.Response(500)
