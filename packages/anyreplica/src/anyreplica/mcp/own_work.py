"""What a server does for this package and not for a caller: it lists its components for plans, and it warms up.

Middleware of the server's author must not see this work: it would count or log requests that no client has sent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware

from anyreplica.auth.visibility import Visibility
from anyreplica.components.call_limits import CallLimits


class OwnMiddleware(Middleware):
    """The class of the middleware that features add. It treats all requests alike."""


OWN_MIDDLEWARE = (OwnMiddleware, CallLimits, Visibility, DereferenceRefsMiddleware)
"""The classes of middleware that are not the author's. They treat all requests alike."""

_OWN_WORK: ContextVar[bool] = ContextVar("own_work", default=False)


class _MiddlewareList(list[Middleware]):
    """The middleware of a FastMCP server. FastMCP calls `reversed` on it to run a request through the middleware."""

    def __reversed__(self) -> Iterator[Middleware]:
        """Return the middleware of a request, innermost first."""
        if _OWN_WORK.get():
            return reversed([each for each in self if isinstance(each, OWN_MIDDLEWARE)])
        return super().__reversed__()


def can_hide_own_work(server: FastMCP) -> None:
    """Prepare a server so that `own_work` has its effect. This may be repeated."""
    if type(server.middleware) is not _MiddlewareList:
        server.middleware = _MiddlewareList(server.middleware)


@contextmanager
def own_work() -> Iterator[None]:
    """Inside the `with` block, requests of this task and its children do not reach the middleware of authors."""
    token = _OWN_WORK.set(True)
    try:
        yield
    finally:
        _OWN_WORK.reset(token)
