"""The loss of Redis during a login.

FastMCP answers most errors of its storage as if a token or a client were unknown. A client would then throw its tokens
away and start a new login. So a replica notes the loss, and answers HTTP 503 instead.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


class LoginUnavailable(OSError):
    """The replica cannot read or write the state of logins, because Redis cannot be reached."""


@dataclass
class Outage:
    """Whether the current request could not reach Redis."""

    noted: bool = False


_CURRENT: ContextVar[Outage | None] = ContextVar("login_outage", default=None)


@contextmanager
def noting_outages() -> Iterator[Outage]:
    """Note inside the `with` block whether Redis could not be reached, even if FastMCP hides the error."""
    outage = Outage()
    token = _CURRENT.set(outage)
    try:
        yield outage
    finally:
        _CURRENT.reset(token)


def note_outage() -> None:
    """Note that Redis could not be reached."""
    if (outage := _CURRENT.get()) is not None:
        outage.noted = True
