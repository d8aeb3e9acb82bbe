"""The login request that the running task answers.

FastMCP hides many errors: it answers as if a client were unknown. A refusal that is noted here reaches the client.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from anyreplica.http.refusal import Refused


@dataclass
class LoginRequest:
    """A request to a route of a login.

    Attributes:
        address: the address of the client.
        counts: whether the bytes that this request stores count for the client's limit.
        refusal: the answer, in place of the answer of FastMCP.
    """

    address: str = ""
    counts: bool = False
    refusal: Refused | None = None


_CURRENT: ContextVar[LoginRequest | None] = ContextVar("login_request", default=None)


@contextmanager
def answering(request: LoginRequest) -> Iterator[None]:
    """Make a request the current one inside the `with` block."""
    token = _CURRENT.set(request)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_request() -> LoginRequest:
    """Return the current request. Outside of a request to a route of a login, return an empty one."""
    return _CURRENT.get() or LoginRequest()
