"""The JSON-RPC message that a body is."""

from dataclasses import dataclass
from typing import Any

from mcp_types import PARSE_ERROR
from pydantic_core import from_json

from server.exchange.errors import Refused
from server.middleware.access_lines import LONGEST

SUBMIT_JOB = "submit_job"
"""Name of the tool that submits any job, so that a call of it is one of that job."""


@dataclass(slots=True)
class Request:
    """A JSON-RPC request: somebody waits for its answer."""

    id: int | str
    method: str
    params: dict[str, Any] | None
    size: int
    """Bytes that it came in."""


@dataclass(slots=True)
class Notification:
    """A JSON-RPC notification, which is answered by nothing but 202."""

    method: str
    params: dict[str, Any] | None


@dataclass(slots=True)
class Response:
    """A client's answer to a request of the server's."""


def parse(body: bytes) -> Request | Notification | Response:
    """Read a body as one JSON-RPC message (JSON-RPC 2.0, sections 4 and 5).

    Parsed by pydantic's reader, which keeps integers of any size exact; NaN and infinities are no JSON (RFC 8259).

    Raises:
        Refused: 400 with -32700 for what isn't JSON, -32600 for what is no single message.
    """
    try:
        message = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise Refused(400, "The body is not valid JSON.", code=PARSE_ERROR) from None
    if type(message) is not dict or message.get("jsonrpc") != "2.0":
        raise _no_message()
    method, params = message.get("method"), message.get("params")
    if type(method) is not str or (params is not None and type(params) is not dict):
        if method is None and "id" in message and ("result" in message or "error" in message):
            return Response()
        raise _no_message()
    identity = message.get("id", _NONE)
    if type(identity) is int or type(identity) is str:
        return Request(identity, method, params, len(body))
    if identity is _NONE:
        return Notification(method, params)
    raise Refused(400, "A request's id must be a string or an integer; leave it out of a notification.")


_NONE = object()


def called(message: Request) -> tuple[str, str]:
    """For the log: the JSON-RPC method, and the tool's or prompt's name or the resource's URI, that is asked for."""
    params = message.params or {}
    name = params.get("name") or params.get("uri")
    return message.method[:LONGEST], (name[:LONGEST] if type(name) is str else "")


def called_tool(message: Request) -> str:
    """The tool, or the job, that a request is a call of; empty if it is none."""
    if message.method != "tools/call" or message.params is None:
        return ""
    name, arguments = message.params.get("name"), message.params.get("arguments")
    if name == SUBMIT_JOB and type(arguments) is dict:
        name = arguments.get("job")
    return name if type(name) is str else ""


def _no_message() -> Refused:
    text = "The body must be a single JSON-RPC 2.0 request or notification, with params that are an object."
    return Refused(400, text)
