"""The fork between `/mcp` and everything else."""

from collections.abc import Awaitable, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send


class Paths:
    """Send a request to the app of its exact path; Starlette's own routing costs as much as answering a call.

    Args:
        exact: apps by path.
        others: takes every other path, and the lifespan.
    """

    def __init__(self, exact: Mapping[str, ASGIApp], others: ASGIApp) -> None:
        self.exact = exact
        self.others = others

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        app = self.exact.get(scope["path"], self.others) if scope["type"] == "http" else self.others
        return app(scope, receive, send)
