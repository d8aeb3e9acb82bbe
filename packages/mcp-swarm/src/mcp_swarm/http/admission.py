"""Which requests are read at all, by what their heads say."""

from collections.abc import Hashable, Sequence

from fastmcp.server.http import HostOriginGuardMiddleware
from starlette.types import Message, Receive, Scope, Send

from mcp_swarm.http.headers import deciding, headers_of
from mcp_swarm.http.refusal import Refused

_REMEMBERED = 1024
"""Heads that are remembered as fine; clients' differ in a handful of ways."""
_SHORT = 500
"""Bytes of a head that is worth remembering; longer ones would be a way to fill the memory."""

_PASSED = 200
_REFUSALS = {
    403: "This Origin may not send requests to this server; ALLOWED_ORIGINS names those that may.",
    421: "This server does not answer for this Host; ALLOWED_HOSTS names those it answers for.",
}


class Admission:
    """Lets requests pass by method, Host, Origin, Content-Type and Accept.

    Args:
        allowed_hosts: names that Host may carry besides loopback's; empty: checked on loopback only.
        allowed_origins: values of Origin that are let through.
        only_post: refuse other methods, which need sessions.
    """

    def __init__(self, allowed_hosts: Sequence[str], allowed_origins: Sequence[str], *, only_post: bool = True) -> None:
        # FastMCP's guard against DNS rebinding: a page in a browser must not reach a server on loopback.
        self._guard = HostOriginGuardMiddleware(
            _pass,
            allowed_hosts=list(allowed_hosts) or None,
            allowed_origins=list(allowed_origins),  # None would let every origin through in a container
            mode="auto",
        )
        self._only_post = only_post
        self.known: dict[Hashable, bool] = {}
        """Whether the caller takes an event stream, by what `deciding` returns for heads that have passed."""

    async def check(self, scope: Scope, receive: Receive) -> bool:
        """Let a request pass; returns whether the caller takes an event stream.

        Raises:
            Refused: 421 for its Host, 403 for its Origin, 405, 415, 406.
        """
        await self.check_source(scope, receive)
        if scope["method"] != "POST":
            if self._only_post:
                text = "This server keeps no sessions: send each JSON-RPC message with POST."
                raise Refused(405, text, headers={"Allow": "POST"})
            return True
        headers = headers_of(scope)
        if _media_type(headers.get(b"content-type", b"")) != b"application/json":
            raise Refused(415, "Send the body as JSON, with the header Content-Type: application/json.")
        takes_json, takes_stream = _accepts(headers.get(b"accept"))
        if not takes_json:
            raise Refused(406, "Accept application/json (and text/event-stream, for progress and log messages).")
        if sum(len(value) for _, value in scope["headers"]) <= _SHORT:
            if len(self.known) >= _REMEMBERED:
                self.known.clear()
            self.known[deciding(scope, headers)] = takes_stream
        return takes_stream

    async def check_source(self, scope: Scope, receive: Receive) -> None:
        """Check a request's Host and Origin only; raises `Refused` as `check` does."""
        status = 0

        async def note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)

        await self._guard(scope, receive, note)
        if status != _PASSED:
            raise Refused(status, _REFUSALS[status])


def _accepts(value: bytes | None) -> tuple[bool, bool]:
    """Whether a caller takes JSON, and whether it takes an event stream.

    No Accept at all means anything (RFC 9110, section 12.5.1), but an event stream has to be asked for.
    """
    if value is None:
        return True, False
    types = {_media_type(part) for part in value.split(b",")}
    anything = b"*/*" in types
    return (
        anything or bool(types & {b"application/json", b"application/*"}),
        anything or bool(types & {b"text/event-stream", b"text/*"}),
    )


def _media_type(value: bytes) -> bytes:
    return value.partition(b";")[0].strip().lower()


async def _pass(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
    await send({"type": "http.response.start", "status": _PASSED})
