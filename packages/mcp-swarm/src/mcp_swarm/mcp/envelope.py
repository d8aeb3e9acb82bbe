"""The part of a request's params that is the protocol's own: `_meta`."""

from typing import Any

import orjson
from mcp_types.methods import validate_client_request
from pydantic import ValidationError

_REMEMBERED = 256
_SMALL = 2000
"""Bytes of a request whose `_meta` is worth remembering."""


class Envelopes:
    """Checks `_meta` as the SDK does, once for each that its clients send again and again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, bytes], None] = {}

    def is_valid(self, method: str, meta: dict[str, Any], version: str, size: int) -> bool:
        """Whether the SDK would take a request of a method and version with this `_meta`, and nothing else amiss.

        Args:
            size: bytes of the request that it is from.

        Returns:
            False for an unusual progress token, too, which may be one that the SDK refuses later.
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
