"""The JSON-RPC message of a request, and the checks that its protocol version requires."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    InboundLadderRejection,
    classify_inbound_request,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    DEFAULT_NEGOTIATED_VERSION,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
)
from mcp_types.methods import validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.datastructures import Headers as StarletteHeaders
from starlette.types import Scope

from anyreplica.auth.caller import may_use
from anyreplica.components.job import SUBMIT_JOB
from anyreplica.http.json_values import BYTES_PER_VALUE, count
from anyreplica.http.request_record import DUPLICATED, LONGEST, Headers, RequestRecord
from anyreplica.http.responses import Refused

LONGEST_NAME = 1024
"""Maximum number of characters of a method, of a JSON-RPC id, and of each member in `_NAMES`."""

_NAMES = ("name", "uri", "progressToken", "taskId", "cursor")
"""Members of `params`, of `params.ref` and of `params._meta` that name something."""

_SMALL = 16 * 1024
"""Size in bytes up to which the memory of a request body is not counted. `MAX_IN_FLIGHT` limits small bodies."""

_NONE = object()

_NO_MESSAGE = "The body must be a single JSON-RPC 2.0 request or notification, with params that are an object."

_REMEMBERED = 256
"""Maximum number of remembered values of `_meta`."""

_REMEMBERED_BYTES = 2000
"""Maximum size of a request in bytes. The `_meta` of larger requests is not remembered."""


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
        size = len(body)
        return Request(identity, method, params, size, memory_of(body) if size > _SMALL else 0)
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


class Envelopes:
    """A check of `_meta` by the SDK's rules. It caches valid values, because clients send the same value many times."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, bytes], None] = {}

    def is_valid(self, method: str, meta: dict[str, Any], version: str, size: int) -> bool:
        """Return whether the SDK accepts this `_meta` in a request of this method and protocol version.

        Return False for an unusual progress token, too, because the SDK may refuse it later. `size` is the size of the
        request in bytes.
        """
        if "progressToken" in meta:
            if meta["progressToken"] is None:  # clients in Java, C# and Go write null if they have no token
                del meta["progressToken"]
            elif not _is_usual(meta["progressToken"]):
                return False
            # The progress token is different in each request, so it is not part of the key.
            meta = {name: value for name, value in meta.items() if name != "progressToken"}
        try:
            key = method, version, orjson.dumps(meta)  # as text, because Python treats 1 and true as equal
        except TypeError:
            key = None
        if key in self._known:
            return True
        try:
            named = {"name": ""} if method == "tools/call" else {}
            validate_client_request(method, version, {**named, "_meta": meta})
        except (KeyError, ValidationError):  # KeyError: this protocol version does not have the method
            return False
        if key is not None and size <= _REMEMBERED_BYTES:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = None
        return True


def _is_usual(token: Any) -> bool:
    """Return whether a progress token is usual: an integer from 0 to 2**53 - 1, or at most 255 ASCII characters."""
    if type(token) is int:
        return 0 <= token < 2**53
    return type(token) is str and len(token) < 256 and token.isascii()


_VERSIONS = {version.encode(): version for version in HANDSHAKE_PROTOCOL_VERSIONS}


_MODERN = LATEST_MODERN_VERSION.encode()


def handshake_version(headers: Headers) -> str | None:
    """Return the handshake-protocol version of a request; return None for the stateless protocol.

    The header `mcp-protocol-version` decides. A request without the header has version 2025-03-26 (Streamable HTTP,
    "Protocol Version Header"). An unknown version returns None, so that the checks of the stateless protocol refuse the
    request: only the error of that protocol lists the supported versions.
    """
    value = headers.get(b"mcp-protocol-version")
    if value is None:
        return DEFAULT_NEGOTIATED_VERSION
    return None if value == _MODERN else _VERSIONS.get(value.strip(b" \t"))


class Routing:
    """The protocol version, the method and the name in the headers of a request. Requests with the same head share it.

    Attributes:
        version: see `handshake_version`.
        method, name: the values of `Mcp-Method` and `Mcp-Name`. None: there is no value, the request does not clearly
            use the stateless protocol (`method`), or `classify_inbound_request` must decode the value.
    """

    __slots__ = ("headers", "method", "name", "version")

    def __init__(self, headers: Headers) -> None:
        self.headers = headers
        self.version = handshake_version(headers)
        is_modern = headers.get(b"mcp-protocol-version") == _MODERN and DUPLICATED not in headers
        self.method = _plain_text(headers.get(b"mcp-method")) if is_modern else None
        self.name = _plain_text(headers.get(b"mcp-name"))


def routing_of(record: RequestRecord) -> Routing:
    """Return the routing of a request. Requests with the same known head get the same object."""
    facts = record.facts
    if facts is None:
        return Routing(record.headers)
    if facts.routing is None:
        facts.routing = Routing(record.headers)
    routing: Routing = facts.routing
    return routing


def _plain_text(value: bytes | None) -> str | None:
    """Return the text of a header value. Return None for no value, an encoded value, and one with outer spaces."""
    if value is None or not value.isascii() or value.startswith(b"=?") or value != value.strip(b" \t"):
        return None
    return value.decode()


def check_envelope(request: Request, routing: Routing) -> str:
    """Check the headers of a stateless-protocol request against its body and its `_meta`; return the protocol version.

    Raises:
        Refused: code -32602, -32020 or -32022, with the HTTP status that the specification has for the code.
    """
    if _agrees(request, routing):
        return LATEST_MODERN_VERSION
    headers = routing.headers
    if DUPLICATED in headers:
        text = f"{headers[DUPLICATED].decode()} header appears more than once"
        raise _refused(request.id, InboundLadderRejection(HEADER_MISMATCH, text))
    verdict = classify_inbound_request({"method": request.method, "params": request.params}, headers=_routing(headers))
    if isinstance(verdict, InboundLadderRejection):
        raise _refused(request.id, verdict)
    return verdict.protocol_version


def _agrees(request: Request, routing: Routing) -> bool:
    """Return whether a request clearly passes `classify_inbound_request`.

    Most requests do. This function takes at most a fifth of the time of `classify_inbound_request`. Some methods repeat
    a name in a header. Of these methods, this function checks only `tools/call`.
    """
    params, method = request.params, request.method
    if params is None or method != routing.method:
        return False
    meta = params.get("_meta")
    if type(meta) is not dict or CLIENT_CAPABILITIES_META_KEY not in meta:
        return False
    if meta.get(PROTOCOL_VERSION_META_KEY) != LATEST_MODERN_VERSION:
        return False
    if method == "tools/call":
        return routing.name is not None and params.get("name") == routing.name
    return method not in NAME_BEARING_METHODS


def check_served(headers: Headers) -> None:
    """Refuse a notification with an unsupported protocol version (code -32022; the error lists the supported ones)."""
    rejection = unsupported_protocol_version_rejection(_routing(headers).get(MCP_PROTOCOL_VERSION_HEADER, ""))
    if rejection is not None:
        raise _refused(None, rejection)


def unexpected_response() -> Refused:
    """Return the refusal of a response in the stateless protocol, in which a server sends no requests."""
    return Refused(400, "The body must be a single JSON-RPC 2.0 request or notification.")


def _routing(headers: Headers) -> dict[str, str]:
    return {
        name.decode("latin-1"): value.decode("latin-1").strip(" \t")  # RFC 9110, section 5.5
        for name, value in headers.items()
        if name.startswith(b"mcp-")
    }


def check_param_headers(request: Request, scope: Scope, schemas: Mapping[str, Any]) -> None:
    """Check the `Mcp-Param-*` headers of a tool call against its arguments.

    Args:
        schemas: the input schemas that repeat an argument in a header (`x-mcp-header`), by tool name.

    Raises:
        Refused: code -32020, a header does not match its argument.
    """
    params = request.params or {}
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or name not in schemas or not isinstance(arguments, Mapping | None):
        return
    if not may_use(scope, name):  # the caller must not find out that this tool exists
        return
    rejection = validate_mcp_param_headers(schemas[name], arguments or {}, StarletteHeaders(scope=scope))
    if rejection is not None:
        raise _refused(request.id, rejection)


def _refused(identity: int | str | None, why: InboundLadderRejection) -> Refused:
    status = ERROR_CODE_HTTP_STATUS.get(why.code, 200)
    return Refused(status, why.message, code=why.code, data=why.data, identity=identity)
