"""A request's headers as a dictionary, made once for all middleware that look into it."""

from collections.abc import Hashable, Mapping

from starlette.types import Scope

Headers = Mapping[bytes, bytes]
"""A request's, by their names in lower case."""

HEADERS = "mcp_swarm.headers"
"""Key of the scope under which the dictionary stands, once it is made."""

DUPLICATED = b":duplicated"
"""Key under which stands the name of a header that routes a request and came more than once."""

_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers by their names in lower case: of several with one name the first, of Accept all, joined by commas."""
    values: dict[bytes, bytes] | None = scope.get(HEADERS)
    if values is None:
        pairs: list[tuple[bytes, bytes]] = scope["headers"]
        values = scope[HEADERS] = dict(pairs)
        if len(values) != len(pairs):
            _fold(values, pairs)
    return values


def deciding(scope: Scope, headers: Headers) -> Hashable:
    """What of a request's head decides whether `Admission` lets it pass."""
    get = headers.get
    said = get(b"host"), get(b"origin"), get(b"content-type"), get(b"accept")
    return said, scope["method"], scope["scheme"], tuple(scope["server"] or ())  # some servers give a list


def _fold(values: dict[bytes, bytes], pairs: list[tuple[bytes, bytes]]) -> None:
    seen: set[bytes] = set()
    for name, value in pairs:
        if name not in seen:
            seen.add(name)
            values[name] = value
        elif name == b"accept":
            values[name] += b"," + value
        elif name in _ROUTING:
            values[DUPLICATED] = name
