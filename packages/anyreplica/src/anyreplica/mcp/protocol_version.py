"""The protocol version of a request, and the checks that the protocol requires."""

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

from anyreplica.auth.caller import may_use
from anyreplica.http.headers import DUPLICATED, Headers
from anyreplica.http.refusal import Refused
from anyreplica.mcp.message import Request

_REMEMBERED = 256
"""Maximum number of remembered values of `_meta`."""
_SMALL = 2000
"""Maximum size of a request in bytes. The `_meta` of larger requests is not remembered."""


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
            if meta["progressToken"] is None:  # no token: clients in Java, C# and Go write null
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
        if key is not None and size <= _SMALL:
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


def check_envelope(request: Request, headers: Headers) -> str:
    """Check the headers of a stateless-protocol request against its body and its `_meta`; return the protocol version.

    Raises:
        Refused: code -32602, -32020 or -32022, with the HTTP status that the specification has for the code.
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
    """Return whether a request clearly passes `classify_inbound_request`.

    Most requests do. This function takes a fifth of the time of `classify_inbound_request`. Some methods repeat a name
    in a header. Of these methods, this function checks only `tools/call`, and only ASCII names, because the header has
    other names in encoded form.
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
            and not name.startswith(("=?", " ", "\t"))  # looks like an encoded name, or loses its spaces in a header
            and not name.endswith((" ", "\t"))
        )
    return method not in NAME_BEARING_METHODS and method.isascii() and headers.get(b"mcp-method") == method.encode()


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
