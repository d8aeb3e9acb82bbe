"""Calls whose trace a test knows."""

import secrets
from typing import Any

import httpx

from tests.calls import post
from tests.replicas import Family, asking


class Caller:
    """One who traces its calls: each caller a trace of its own."""

    def __init__(self) -> None:
        self.trace = secrets.token_hex(16)
        self.span = secrets.token_hex(8)
        self.traceparent = f"00-{self.trace}-{self.span}-01"


def call(
    url: str, family: Family, method: str, params: dict[str, Any] | None = None, *, header: str = "", **meta: Any
) -> httpx.Response:
    """Ask a replica for something.

    Args:
        header: the `traceparent` there, if any.
        meta: what joins the message's `_meta`.
    """
    asked = asking(family, method, params, **meta)
    if header:
        asked["headers"] = {**asked["headers"], "traceparent": header}
    return post(url, **asked)


def echo(**arguments: Any) -> dict[str, Any]:
    """The params of a call of the tool `echo`."""
    return {"name": "echo", "arguments": {"message": "x", **arguments}}
