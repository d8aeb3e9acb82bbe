"""The headers of a request as a dictionary that all middleware share, and its path below a prefix."""

from collections.abc import Awaitable, Hashable, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

Headers = Mapping[bytes, bytes]
"""The headers of a request by their names in lower case."""

HEADERS = "anyreplica.headers"
"""Scope key of the dictionary of headers. `headers_of` creates the dictionary at the first use."""

DUPLICATED = b":duplicated"
"""Key in the dictionary. Its value is the name of a routing header that the request has more than once."""

CREDENTIALS = frozenset(
    {b"authorization", b"proxy-authorization", b"cookie", b"x-api-key", b"signature", b"signature-input", b"dpop"}
)
"""The headers that may carry a caller's credentials, in lower case."""

_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers by their names in lower case.

    If a header occurs several times, the first one counts. All Accept headers are joined with commas.
    """
    values: dict[bytes, bytes] | None = scope.get(HEADERS)
    if values is None:
        pairs: list[tuple[bytes, bytes]] = scope["headers"]
        values = scope[HEADERS] = dict(pairs)
        if len(values) != len(pairs):
            _fold(values, pairs)
    return values


def path_of(scope: Scope) -> str:
    """Return the path of a request below the prefix at which the app is mounted.

    `scope["path"]` contains the prefix, which is `scope["root_path"]` (ASGI specification, HTTP connection scope).
    Some servers and proxies leave the prefix out of the path. Then the path stays as it is.
    """
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "")
    if prefix and path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/"):
        return path[len(prefix) :]
    return path


def by_path(exact: Mapping[str, ASGIApp], others: ASGIApp) -> ASGIApp:
    """Return an app that sends a request to the app of its exact path, and every other request to `others`.

    The routing of Starlette would take as much time as a whole call.
    """

    def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return others(scope, receive, send)
        app = exact.get(scope["path"]) or exact.get(path_of(scope), others)
        return app(scope, receive, send)

    return answer


def head_cache_key(scope: Scope, headers: Headers) -> Hashable:
    """Return the parts of a request head that decide whether `HeadCheck` accepts the request."""
    get = headers.get
    said = get(b"host"), get(b"origin"), get(b"content-type"), get(b"accept")
    return said, scope["method"], scope["scheme"], tuple(scope["server"] or ())  # some ASGI servers use a list


def drop_session_id(scope: Scope) -> None:
    """Remove the session id from a request, so that FastMCP and the SDK do not look for session state."""
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"mcp-session-id"]


def drop_credentials(scope: Scope) -> None:
    """Remove the credentials of an authenticated caller from a request, so that no tool and no log can reveal them."""
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] not in CREDENTIALS]
    scope.pop(HEADERS, None)


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
