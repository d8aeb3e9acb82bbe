"""The endpoint where the settings ask for the SDK's own behaviour: event streams always, or sessions."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.exchange.admission import Admission
from server.exchange.body import read, replay
from server.exchange.errors import ClientGone, Refused, send_refusal
from server.exchange.message import Request, called, parse
from server.exchange.stateless import drop_session_id
from server.middleware.access_lines import CALL, FAILED
from server.middleware.headers import headers_of


class Delegate:
    """Refuse what the SDK gets wrong, note what is asked for, and let FastMCP's app answer.

    Args:
        app: FastMCP's.
        admission: which requests are read at all.
        stateless: whether it keeps no sessions.
        max_body_bytes: the largest body that is read.
    """

    def __init__(self, app: ASGIApp, admission: Admission, *, stateless: bool, max_body_bytes: int) -> None:
        self.app = app
        self.admission = admission
        self.stateless = stateless
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._serve(scope, receive, send)
        except Refused as refused:
            await send_refusal(send, refused)
        except ClientGone:
            return

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["path"] = "/mcp"  # FastMCP's route; a trailing slash is what many clients' configurations have
        if self.admission.known(scope) is None:
            await self.admission.check(scope, receive)
        if self.stateless:
            drop_session_id(scope)
        if scope["method"] == "POST":
            body = await read(receive, headers_of(scope).get(b"content-length"), self.max_body_bytes)
            message = parse(body)
            if isinstance(message, Request):
                scope[CALL] = called(message)
            receive = replay(body, receive)

        async def send_noting_failure(part: Message) -> None:
            if part["type"] == "http.response.body" and _tells_of_failure(part.get("body", b"")):
                scope[FAILED] = True
            await send(part)

        await self.app(scope, receive, send_noting_failure)


def _tells_of_failure(body: bytes) -> bool:
    """Whether a reply is a JSON-RPC error or a tool's, for the log.

    Quotes within a JSON string are escaped, so no text matches; a structured result with such a key would.
    """
    return b'"isError":true' in body or b'"error":{"code":' in body
