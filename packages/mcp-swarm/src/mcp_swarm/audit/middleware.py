"""What becomes a line of the audit log: every request but those that anybody may send."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_swarm.audit.call import ARGUMENTS, Noted
from mcp_swarm.audit.digests import Digests
from mcp_swarm.audit.log import AuditLog
from mcp_swarm.audit.shown import Shown
from mcp_swarm.auth.authenticator import OPEN_PATHS
from mcp_swarm.auth.caller import CALLER, Caller
from mcp_swarm.http.access_lines import CALL, FAILED, Write
from mcp_swarm.http.in_flight import UNAVAILABLE
from mcp_swarm.http.refusal import Refused, send_refusal
from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError


class Trail:
    """Notes requests; refuses them while the audit log can't be written, if it is set to.

    Args:
        log: where they are noted.
    """

    def __init__(self, app: ASGIApp, log: AuditLog) -> None:
        self.app = app
        self.log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            scope[ARGUMENTS] = b""
            if self.log.refusing:
                text = "This replica can't write its audit log, and takes no calls without it; try again."
                await send_refusal(send, Refused(503, text, code=UNAVAILABLE, headers={"Retry-After": "1"}))
                return
        await self.app(scope, receive, send)


def noting(log: AuditLog, write: Write) -> Write:
    """What notes a request that was answered, besides writing its line of the access log."""

    def note(identity: str, scope: Scope, status: int, seconds: float) -> None:
        write(identity, scope, status, seconds)
        arguments = scope.get(ARGUMENTS)
        if arguments is None:
            return
        method, name = scope.get(CALL, ("", ""))
        caller: Caller | None = scope.get(CALLER)
        log.note(
            Noted(
                time.time() - seconds,
                identity,
                "" if caller is None else caller.name,
                method or _of_http(scope),
                name,
                arguments,
                status,
                FAILED in scope,
                seconds,
            )
        )

    return note


def audit_log(settings: Settings, replica: str) -> AuditLog | None:
    """The audit log, if the settings want one.

    Raises:
        StartupError: a setting of it isn't good.
    """
    if not settings.audit_log:
        return None
    key = settings.audit_key.get_secret_value().encode() if settings.audit_key else None
    with _naming("AUDIT_KEY"):
        Digests(key)
    with _naming("AUDIT_ARGUMENTS"):
        Shown(settings.audit_arguments)
    return AuditLog(settings.audit_log, replica, settings.audit_on_failure, settings.audit_arguments, key)


@contextmanager
def _naming(variable: str) -> Iterator[None]:
    """Name the setting whose value is wrong.

    Raises:
        StartupError: in place of ValueError.
    """
    try:
        yield
    except ValueError as error:
        raise StartupError(f"{variable}: {error}") from None


def check(settings: Settings) -> None:
    """Look whether the audit log can be written.

    Raises:
        StartupError: it can't, or a setting of it isn't good.
    """
    log = audit_log(settings, "")
    if log is not None:
        log.check()


def _of_http(scope: Mapping[str, Any]) -> str:
    return f"{scope['method']} {scope['path']}"
