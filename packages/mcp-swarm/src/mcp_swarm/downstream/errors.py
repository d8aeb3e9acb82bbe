"""What can go wrong with a call to an API, in words for the caller of the tool that made it.

They name the host, and never the URL's path and query nor anything that the host said.
"""

import logging
from typing import ClassVar, Literal

import httpx2
from fastmcp.exceptions import ToolError

ApiOutcome = Literal["ok", "error", "timeout", "open", "limited"]
OUTCOMES: tuple[ApiOutcome, ...] = "ok", "error", "timeout", "open", "limited"


class DownstreamError(ToolError):
    """An API gave no answer that can be used. A tool may catch it; else its caller reads it."""

    outcome: ClassVar[ApiOutcome] = "error"

    def __init__(self, message: str) -> None:
        # `mcp_swarm.components.call_limits` logs what callers are told.
        super().__init__(message, log_level=logging.DEBUG)


class Unreachable(DownstreamError):
    """There is no connection, or it broke off."""


class TimedOut(DownstreamError):
    """It took too long."""

    outcome = "timeout"


class CircuitOpen(DownstreamError):
    """The circuit of the host is open for a while, since calls to it have failed."""

    outcome = "open"


class Limited(DownstreamError):
    """There are as many calls to the host as may be."""

    outcome = "limited"


class Unusable(DownstreamError):
    """The answer is too large, or compressed."""


class BadStatus(DownstreamError):
    """The answer's status isn't 2xx."""

    def __init__(self, message: str, response: httpx2.Response | None = None) -> None:
        super().__init__(message)
        self.response = response or httpx2.Response(500)
