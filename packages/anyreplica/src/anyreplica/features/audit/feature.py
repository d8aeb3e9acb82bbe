"""The feature *audit log*: one entry for each call, in a chain of hashes."""

import time
from collections.abc import Awaitable
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica.auth.authentication import open_paths
from anyreplica.auth.caller import Caller
from anyreplica.feature import Feature, Parts, Position, Replica
from anyreplica.features.audit.call import ARGUMENTS, note_arguments
from anyreplica.features.audit.line import Digests
from anyreplica.features.audit.log import AuditLog
from anyreplica.features.audit.settings import AuditSettings
from anyreplica.http.access_log import Write
from anyreplica.http.request_record import RECORD, RequestRecord, path_of
from anyreplica.http.responses import Refused, send_refusal
from anyreplica.settings.errors import StartupError


def marking(app: ASGIApp, log: AuditLog, settings: AuditSettings) -> ASGIApp:
    """Return a middleware that marks requests for the log, so that their arguments are recorded.

    Every request gets an entry, except on the paths that need no authentication. On the paths of the metrics and of
    `/health/deep`, only a request that authentication refuses gets an entry.

    The middleware refuses requests with HTTP 503 while the log cannot be written, if the log is set to refuse.
    """
    open_ = open_paths(settings)

    def middleware(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http" and (path_of(scope) if scope.get("root_path") else scope["path"]) not in open_:
            record: RequestRecord = scope[RECORD]
            record.notes = {**record.notes, ARGUMENTS: b""} if record.notes else {ARGUMENTS: b""}
            if log.refuses and log.refusing:
                text = "Audit log not writable: this replica refuses calls (AUDIT_ON_FAILURE); retry later."
                return send_refusal(scope, send, Refused.retry_later(text))
        return app(scope, receive, send)

    return middleware


def observer(log: AuditLog) -> Write:
    """Return a function that records a request, which has ended, for the audit log."""

    def note(identity: str, scope: Scope, status: int, seconds: float) -> None:
        record: RequestRecord = scope[RECORD]
        if record.notes is None or (arguments := record.notes.get(ARGUMENTS)) is None:
            return
        method, name = record.called or ("", "")
        caller: Caller | None = record.caller
        # A plain tuple: making a `Noted` would take 2,000 instructions more.
        values: Any = (
            time.time() - seconds,
            identity,
            "" if caller is None else caller.name,
            method or f"{scope['method']} {scope['path']}",
            name,
            arguments,
            status,
            record.failed is not None,
            seconds,
        )
        log.note(values)

    return note


def audit_log(settings: AuditSettings, replica: str) -> AuditLog | None:
    """Return the audit log, or None if the settings enable none.

    Raises:
        StartupError: a setting of the audit log is not valid.
    """
    if not settings.audit_log:
        return None
    key = settings.audit_key.get_secret_value().encode() if settings.audit_key else None
    try:
        Digests(key)
    except ValueError as error:
        raise StartupError(f"AUDIT_KEY: {error}") from None
    try:
        return AuditLog(settings.audit_log, replica, settings.audit_on_failure, settings.audit_arguments, key)
    except ValueError as error:  # the key is valid, so a pattern is wrong
        raise StartupError(f"AUDIT_ARGUMENTS: {error}") from None


class AuditTrail(Feature):
    """Writes the audit log that AUDIT_LOG names. `check` writes no entry."""

    settings: AuditSettings

    def check(self) -> None:
        if (log := audit_log(self.settings, "")) is not None:
            log.check()

    def attach(self, replica: Replica) -> Parts:
        log = None if replica.is_trial else audit_log(self.settings, replica.name)
        if log is None:
            return Parts()
        around = partial(marking, log=log, settings=self.settings)
        return Parts(
            middleware=[(Position.BEFORE_AUTHENTICATION, around)],
            on_call=[note_arguments],
            observers=[observer(log)],
            running=[log.running()],
        )
