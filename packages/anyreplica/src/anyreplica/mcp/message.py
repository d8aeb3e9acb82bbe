"""The JSON-RPC message in a request body, and its parser."""

from dataclasses import dataclass
from typing import Any

from mcp_types import INVALID_PARAMS, PARSE_ERROR
from pydantic_core import from_json

from anyreplica.components.job import SUBMIT_JOB
from anyreplica.http.access_log import LONGEST
from anyreplica.http.json_values import BYTES_PER_VALUE, count
from anyreplica.http.refusal import Refused

LONGEST_NAME = 1024
"""Maximum number of characters of a method, of a JSON-RPC id, and of each member in `_NAMES`."""

_NAMES = ("name", "uri", "progressToken", "taskId", "cursor")
"""Members of `params`, of `params.ref` and of `params._meta` that name something."""

_SMALL = 16 * 1024
"""Size in bytes up to which the memory of a request body is not counted. `MAX_IN_FLIGHT` limits small bodies."""

_NONE = object()
_NO_MESSAGE = "The body must be a single JSON-RPC 2.0 request or notification, with params that are an object."


@dataclass(slots=True)
class Request:
    """A JSON-RPC request: the client waits for a response."""

    id: int | str
    method: str
    params: dict[str, Any] | None
    size: int
    """Size of the request body in bytes."""
    memory: int = 0
    """Estimated memory in bytes while the request is answered; 0 for a small request, which is not counted."""


@dataclass(slots=True)
class Notification:
    """A JSON-RPC notification. The reply is an empty body with status 202."""

    method: str
    params: dict[str, Any] | None
    memory: int = 0
    id: None = None


@dataclass(slots=True)
class Response:
    """A JSON-RPC response of the client to a request of the server."""

    answered: int | str | None
    """The id of the server's request. None: the id is neither a string nor an integer."""
    answer: dict[str, Any]
    """`{"result": {…}}` or `{"error": {"code": …, "message": …}}`."""
    memory: int = 0
    method: str = ""
    params: None = None
    id: None = None


def parse(body: bytes) -> Request | Notification | Response:
    """Parse a request body as one JSON-RPC message (JSON-RPC 2.0, sections 4 and 5).

    Pydantic's JSON parser keeps integers of any size exact. NaN and infinities are not valid JSON (RFC 8259).

    Raises:
        Refused: HTTP status 400. Code -32700: the body is not JSON. Code -32600: the body is not a single message, or
            the id or the method is invalid or too long. Code -32602: a name, a URI, a cursor, a task id or a
            progress token is too long.
    """
    try:
        message = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise Refused(400, "The body is not valid JSON.", code=PARSE_ERROR) from None
    if type(message) is not dict or message.get("jsonrpc") != "2.0":
        raise Refused(400, _NO_MESSAGE)
    method, params = message.get("method"), message.get("params")
    if type(method) is not str or (params is not None and type(params) is not dict):
        if method is None and "id" in message and ("result" in message or "error" in message):
            return _response(message, memory_of(body))
        raise Refused(400, _NO_MESSAGE)
    identity = message.get("id", _NONE)
    if len(method) > LONGEST_NAME or (type(identity) is str and len(identity) > LONGEST_NAME):
        raise Refused(400, f"The id or the method is too long: the limit is {LONGEST_NAME} characters.")
    if type(identity) is int or type(identity) is str:
        if params is not None and len(body) > LONGEST_NAME:
            _check_names(params, identity)
        return Request(identity, method, params, len(body), memory_of(body))
    if identity is _NONE:
        return Notification(method, params, memory_of(body))
    raise Refused(400, "The id of a request must be a string or an integer; a notification must not have an id.")


def _response(message: dict[str, Any], memory: int) -> Response:
    """Return the response in a message; raise `Refused` (HTTP 400) if its result or error has a wrong form."""
    identity, result, error = message["id"], message.get("result"), message.get("error")
    answered = identity if type(identity) is str or type(identity) is int else None
    if type(result) is dict and "error" not in message:
        return Response(answered, {"result": result}, memory)
    is_error = type(error) is dict and type(error.get("code")) is int and type(error.get("message")) is str
    if is_error and "result" not in message:
        return Response(answered, {"error": error}, memory)
    text = "The response needs a result that is an object, or an error with a numeric code and a message."
    raise Refused(400, text)


def _check_names(params: dict[str, Any], identity: int | str) -> None:
    """Refuse long names, because the server looks up, logs and repeats names in errors."""
    places = (params, params.get("ref"), params.get("_meta"))
    for place, key in ((place, key) for place in places if type(place) is dict for key in _NAMES):
        if type(place.get(key)) is str and len(place[key]) > LONGEST_NAME:
            text = f"{key} is too long: the limit is {LONGEST_NAME} characters."
            raise Refused(400, text, code=INVALID_PARAMS, identity=identity)


def drop_null_token(params: dict[str, Any] | None) -> bool:
    """Remove a progress token that is null from `_meta`, and return whether there was one.

    Clients in Java, C# and Go write null for "no token". The SDK would refuse it.
    """
    meta = None if params is None else params.get("_meta")
    if type(meta) is not dict or meta.get("progressToken", _NONE) is not None:
        return False
    del meta["progressToken"]
    return True


def is_too_long(name: object) -> bool:
    """Return whether an id or a progress token in a notification is too long to be passed on to other replicas."""
    if isinstance(name, int):
        return name.bit_length() > 64
    return isinstance(name, str) and len(name) > LONGEST_NAME


def memory_of(body: bytes) -> int:
    """Estimate the memory in bytes that a message needs until its reply; return 0 for a body of at most 16 KiB."""
    if len(body) <= _SMALL:
        return 0
    return len(body) + BYTES_PER_VALUE * count(body, _SMALL)


def called(message: Request) -> tuple[str, str]:
    """Return the JSON-RPC method and the name or URI in its params (of a tool, prompt or resource), for the log."""
    params = message.params or {}
    name = params.get("name") or params.get("uri")
    return message.method[:LONGEST], (name[:LONGEST] if type(name) is str else "")


def called_tool(message: Request | Notification | Response) -> str:
    """Return the name of the tool or job that a message calls; return an empty text for other messages."""
    if message.method != "tools/call" or not isinstance(message, Request) or message.params is None:
        return ""
    name, arguments = message.params.get("name"), message.params.get("arguments")
    if name == SUBMIT_JOB and type(arguments) is dict:
        name = arguments.get("job")
    return name[:LONGEST_NAME] if type(name) is str else ""
