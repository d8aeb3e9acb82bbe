"""The endpoint behind `/mcp`."""

from typing import Any

from pydantic_core import from_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.exchange.body import BodyTooLarge, ClientGone, read, replay
from server.exchange.errors import refusal
from server.middleware.access_log import CALL, FAILED


class Exchange:
    """Take a POST, refuse what can't be a request, note what it asks for, and let FastMCP answer it.

    FastMCP's app chooses the protocol era by the version header and answers statelessly, in JSON unless the
    settings say otherwise. Both eras need no request before this one, and none after it.
    """

    def __init__(self, app: ASGIApp, *, stateless: bool, max_body_bytes: int) -> None:
        self.app = app
        self.stateless = stateless
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["path"] = "/mcp"  # FastMCP's route; a trailing slash is what many clients' configurations have
        if scope["method"] != "POST":
            if self.stateless:
                text = "This server keeps no sessions: send each JSON-RPC message with POST."
                await refusal(405, text, {"Allow": "POST"})(scope, receive, send)
            else:
                await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
            text = "Send the body as JSON, with the header Content-Type: application/json."
            await refusal(415, text)(scope, receive, send)
            return
        declared = headers.get(b"content-length")
        try:
            body = await read(receive, int(declared) if declared else None, self.max_body_bytes)
        except BodyTooLarge:
            text = f"The body is larger than the {self.max_body_bytes} bytes that this server takes."
            await refusal(413, text, {"Connection": "close"})(scope, receive, send)
            return
        except ClientGone:
            return
        message = _parse(body)
        if "method" in message and "id" in message and type(message["id"]) not in (str, int):
            text = "A request's id must be a string or an integer; leave it out of a notification."
            await refusal(400, text)(scope, receive, send)
            return
        scope[CALL] = _called(message)

        async def send_noting_failure(part: Message) -> None:
            if part["type"] == "http.response.body" and _tells_of_failure(part.get("body", b"")):
                scope[FAILED] = True
            await send(part)

        await self.app(scope, replay(body, receive), send_noting_failure)


def _parse(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is; an empty one if it is something else, which the SDK answers."""
    try:
        message = from_json(body)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _called(message: dict[str, Any]) -> tuple[str, str]:
    """The JSON-RPC method, and the tool's or prompt's name or the resource's URI, that a message asks for."""
    params = message.get("params")
    name = (params.get("name") or params.get("uri")) if isinstance(params, dict) else None
    method = message.get("method")
    return (method if isinstance(method, str) else ""), (name if isinstance(name, str) else "")


def _tells_of_failure(body: bytes) -> bool:
    """Whether a reply is a JSON-RPC error or a tool's, for the log.

    Quotes within a JSON string are escaped, so no text matches; a structured result with such a key would.
    """
    return b'"isError":true' in body or b'"error":{"code":' in body
