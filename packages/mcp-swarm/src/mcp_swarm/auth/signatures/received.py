"""A request that came by ASGI, as `http_message_signatures` looks at one."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from starlette.types import Scope

from mcp_swarm.auth.signatures.errors import BadSignature

_HOST = re.compile(r"[^/?#@\\\s]+")
_TARGET = re.compile(r"/[^?#]*(\?[^#]*)?")
"""What can be put together to a URL, and taken apart to the same again: a Host with a slash in it would be a path."""

_OWN = frozenset({b"host", b"signature-input", b"signature"})


@dataclass(frozen=True)
class Received:
    """The parts of a request that a signature may cover (RFC 9421, section 2), as they came over the wire.

    `@path` and `@query` are what stands in the request's first line, before any decoding. `@authority` is the header
    Host, and `@target-uri` is made of the connection's scheme, Host, path and query. Behind a proxy that ends TLS or
    sets a Host of its own, those differ from what the client has seen, so a signature that covers `@path` and `@query`
    is the robust one.
    """

    method: str
    url: str
    request_target: str
    headers: Mapping[str, str]
    """Those that the signature names, and its own."""

    @classmethod
    def of(cls, scope: Scope) -> "Received":
        """The request of an ASGI scope.

        Raises:
            BadSignature: it has no Host or one that is none, no path, or one of its headers twice.
        """
        headers = _headers(scope["headers"])
        host = headers.get("host", "")
        if not _HOST.fullmatch(host):
            raise BadSignature("A signed request needs the header host.")
        query = scope["query_string"].decode("latin-1")
        target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        if not _TARGET.fullmatch(target):
            raise BadSignature("A signed request needs a path as its target.")
        return cls(scope["method"], f"{scope['scheme']}://{host}{target}", target, headers)

    @property
    def has_query(self) -> bool:
        """Whether there is more to the target than a path."""
        return "?" in self.request_target

    def header(self, name: str, most: int) -> str:
        """A header's value.

        Args:
            most: characters that it may have.

        Raises:
            BadSignature: it is missing, or longer.
        """
        value = self.headers.get(name)
        if value is None:
            raise BadSignature(f"A signed request needs the header {name}.")
        if len(value) > most:
            raise BadSignature(f"The header {name} is longer than {most} characters.")
        return value


def _headers(given: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers that matter: reading thousands of others would only cost time."""
    named = next((value for name, value in given if name == b"signature-input"), b"")
    found: dict[str, str] = {}
    for name, value in given:
        if name in _OWN or b'"%b"' % name in named:
            text = name.decode("latin-1")
            if text in found:  # who reads it may take the one or the other
                raise BadSignature(f"A signed request has the header {text} once; this one has it twice.")
            found[text] = value.decode("latin-1")
    return found
