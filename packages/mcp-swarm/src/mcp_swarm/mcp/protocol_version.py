"""Which protocol family a request speaks, and what that protocol asks of it."""

from collections.abc import Mapping
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
    PROTOCOL_VERSION_META_KEY,
)
from mcp_types.methods import validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION
from pydantic import ValidationError
from starlette.datastructures import Headers as StarletteHeaders
from starlette.types import Scope

from mcp_swarm.auth.caller import may_use
from mcp_swarm.http.headers import DUPLICATED, Headers
from mcp_swarm.http.refusal import Refused
from mcp_swarm.mcp.message import Request

_REMEMBERED = 256
_SMALL = 2000
"""Bytes of a request whose `_meta` is worth remembering."""


class Envelopes:
    """Checks `_meta` as the SDK does, once for each that its clients send again and again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, bytes], None] = {}

    def is_valid(self, method: str, meta: dict[str, Any], version: str, size: int) -> bool:
        """Whether the SDK would take a request of a method and version with this `_meta`, and nothing else amiss.

        False for an unusual progress token, too, which the SDK may refuse later. The request has `size` bytes.
        """
        if "progressToken" in meta:
            if not _is_usual(meta["progressToken"]):
                return False
            meta = {name: value for name, value in meta.items() if name != "progressToken"}  # each request's is another
        try:
            key = method, version, orjson.dumps(meta)  # as text, since to Python 1 and true are equal
        except TypeError:
            key = None
        if key in self._known:
            return True
        try:
            named = {"name": ""} if method == "tools/call" else {}
            validate_client_request(method, version, {**named, "_meta": meta})
        except (KeyError, ValidationError):  # the first: no such method in this version
            return False
        if key is not None and size <= _SMALL:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = None
        return True


def _is_usual(token: Any) -> bool:
    """Whether it is a progress token as clients make them: a number that counts, or a plain text."""
    if type(token) is int:
        return 0 <= token < 2**53
    return type(token) is str and len(token) < 256 and token.isascii()


_VERSIONS = {version.encode(): version for version in HANDSHAKE_PROTOCOL_VERSIONS}
_MODERN = LATEST_MODERN_VERSION.encode()


def handshake_version(headers: Headers) -> str | None:
    """The handshake-protocol version that a request speaks, None if it is the stateless protocol's.

    The header decides; a request without one speaks 2025-03-26 (Streamable HTTP, "Protocol Version Header"). A version
    that nobody knows is the stateless protocol's to refuse: only that protocol's error says which ones are served.
    """
    said = headers.get(b"mcp-protocol-version")
    if said is None:
        return DEFAULT_NEGOTIATED_VERSION
    return None if said == _MODERN else _VERSIONS.get(said.strip(b" \t"))


def check_envelope(request: Request, headers: Headers) -> str:
    """Check a stateless-protocol request's headers against its body, and its envelope; returns the protocol version.

    Raises:
        Refused: -32602, -32020 or -32022 with the status that the specification gives each.
    """
    if _agrees(request, headers):
        return LATEST_MODERN_VERSION
    if DUPLICATED in headers:
        text = f"{headers[DUPLICATED].decode()} header appears more than once"
        raise _refused(request.id, InboundLadderRejection(HEADER_MISMATCH, text))
    verdict = classify_inbound_request({"method": request.method, "params": request.params}, headers=_routing(headers))
    if isinstance(verdict, InboundLadderRejection):
        raise _refused(request.id, verdict)
    return verdict.protocol_version


def _agrees(request: Request, headers: Headers) -> bool:
    """Whether a request is plainly what `classify_inbound_request` lets pass; most are, and this takes a fifth of it.

    Of the methods whose requests name something in a header only `tools/call` is looked at, and a name beyond ASCII,
    which its header carries encoded, is left to that function.
    """
    params, method = request.params, request.method
    if params is None or headers.get(b"mcp-protocol-version") != _MODERN or DUPLICATED in headers:
        return False
    meta = params.get("_meta")
    if type(meta) is not dict or CLIENT_CAPABILITIES_META_KEY not in meta:
        return False
    if meta.get(PROTOCOL_VERSION_META_KEY) != LATEST_MODERN_VERSION:
        return False
    if method == "tools/call":
        name = params.get("name")
        return (
            type(name) is str
            and headers.get(b"mcp-method") == b"tools/call"
            and name.isascii()
            and headers.get(b"mcp-name") == name.encode()
            and not name.startswith(("=?", " ", "\t"))  # looks like an encoded one, or is none as a header
            and not name.endswith((" ", "\t"))
        )
    return method not in NAME_BEARING_METHODS and method.isascii() and headers.get(b"mcp-method") == method.encode()


def check_served(headers: Headers) -> None:
    """Refuse a stateless-protocol notification of a version that isn't served (-32022, with those that are)."""
    rejection = unsupported_protocol_version_rejection(_routing(headers).get(MCP_PROTOCOL_VERSION_HEADER, ""))
    if rejection is not None:
        raise _refused(None, rejection)


def _routing(headers: Headers) -> dict[str, str]:
    return {
        name.decode("latin-1"): value.decode("latin-1").strip(" \t")  # RFC 9110, section 5.5
        for name, value in headers.items()
        if name.startswith(b"mcp-")
    }


def check_param_headers(request: Request, scope: Scope, schemas: Mapping[str, Any]) -> None:
    """Check a tool call's `Mcp-Param-*` headers against its arguments.

    Args:
        schemas: the input schemas, by tool's name, that mirror an argument into a header (`x-mcp-header`).

    Raises:
        Refused: -32020.
    """
    params = request.params or {}
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or name not in schemas or not isinstance(arguments, Mapping | None):
        return
    if not may_use(scope, name):  # to whom nothing tells that there is such a tool
        return
    rejection = validate_mcp_param_headers(schemas[name], arguments or {}, StarletteHeaders(scope=scope))
    if rejection is not None:
        raise _refused(request.id, rejection)


def _refused(identity: int | str | None, why: InboundLadderRejection) -> Refused:
    status = ERROR_CODE_HTTP_STATUS.get(why.code, 200)
    return Refused(status, why.message, code=why.code, data=why.data, identity=identity)
