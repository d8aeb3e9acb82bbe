"""Calls with a known trace."""

import secrets
from typing import Any

import httpx

from tests.calls import post
from tests.replicas import Family, asking


class Caller:
    """A caller that traces its calls in its own trace."""

    def __init__(self) -> None:
        self.trace = secrets.token_hex(16)
        self.span = secrets.token_hex(8)
        self.traceparent = f"00-{self.trace}-{self.span}-01"


def call(
    url: str, family: Family, method: str, params: dict[str, Any] | None = None, *, header: str = "", **meta: Any
) -> httpx.Response:
    """Send a request with `traceparent` in its header (unless empty), and `meta` as members of its `_meta`."""
    asked = asking(family, method, params, **meta)
    if header:
        asked["headers"] = {**asked["headers"], "traceparent": header}
    return post(url, **asked)


def echo(**arguments: Any) -> dict[str, Any]:
    """Return the params of a call of the tool `echo`."""
    return {"name": "echo", "arguments": {"message": "x", **arguments}}
