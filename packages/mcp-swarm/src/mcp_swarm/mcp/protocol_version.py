"""Which protocol era a request speaks, and what that era asks of it."""

from collections.abc import Mapping
from typing import Any

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
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION
from starlette.datastructures import Headers as StarletteHeaders
from starlette.types import Scope

from mcp_swarm.auth.caller import may_use
from mcp_swarm.http.headers import DUPLICATED, Headers
from mcp_swarm.http.refusal import Refused
from mcp_swarm.mcp.message import Request

_VERSIONS = {version.encode(): version for version in HANDSHAKE_PROTOCOL_VERSIONS}
_MODERN = LATEST_MODERN_VERSION.encode()
_SPACE = " \t"
"""What may surround a header's value and is no part of it (RFC 9110, section 5.5)."""


def handshake_version(headers: Headers) -> str | None:
    """The handshake-era version that a request speaks, None if it is the stateless era's.

    The header decides; a request without one speaks 2025-03-26 (Streamable HTTP, "Protocol Version Header"). A version
    that nobody knows is the stateless era's to refuse, since only that era's error says which ones are served.
    """
    said = headers.get(b"mcp-protocol-version")
    if said is None:
        return DEFAULT_NEGOTIATED_VERSION
    return None if said == _MODERN else _VERSIONS.get(said.strip(b" \t"))


def check_envelope(request: Request, headers: Headers) -> str:
    """Check a stateless-era request's headers against its body, and its envelope.

    Returns:
        The protocol version.

    Raises:
        Refused: -32602, -32020 or -32022 with the status that the specification gives each.
    """
    if _agrees(request, headers):
        return LATEST_MODERN_VERSION
    if DUPLICATED in headers:
        text = f"{headers[DUPLICATED].decode()} header appears more than once"
        raise _refused(request.id, HEADER_MISMATCH, text)
    verdict = classify_inbound_request({"method": request.method, "params": request.params}, headers=_routing(headers))
    if isinstance(verdict, InboundLadderRejection):
        raise _refused(request.id, verdict.code, verdict.message, verdict.data)
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
    if (
        type(meta) is not dict
        or meta.get(PROTOCOL_VERSION_META_KEY) != LATEST_MODERN_VERSION
        or CLIENT_CAPABILITIES_META_KEY not in meta
    ):
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
    """Check that a stateless-era notification's version is one that is served.

    Raises:
        Refused: -32022, with the versions that are.
    """
    rejection = unsupported_protocol_version_rejection(_routing(headers).get(MCP_PROTOCOL_VERSION_HEADER, ""))
    if rejection is not None:
        raise _refused(None, rejection.code, rejection.message, rejection.data)


def _routing(headers: Headers) -> dict[str, str]:
    return {
        name.decode("latin-1"): value.decode("latin-1").strip(_SPACE)
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
        raise _refused(request.id, rejection.code, rejection.message, rejection.data)


def _refused(identity: int | str | None, code: int, message: str, data: Any = None) -> Refused:
    return Refused(ERROR_CODE_HTTP_STATUS.get(code, 200), message, code=code, data=data, identity=identity)
