"""The constant parts of a tool's reply, written once: only its text and its structured content differ."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp_types import CallToolResult, TextContent

from mcp_swarm.http.json_replies import encode

_TEXT = "the text goes here"
_VALUE = "the value goes here"

WRAPPED = {"fastmcp": {"wrap_result": True}}
"""The `_meta` with which FastMCP marks structured content that it put into an object under `result`."""


@dataclass(frozen=True, slots=True)
class Template:
    """The parts of a JSON-RPC response around its id, its text and its structured content, in this order."""

    start: bytes
    middle: bytes
    end: bytes

    def fill(self, identity: int | str, text: bytes, value: bytes) -> bytes:
        """The whole response; `text` and `value` are JSON."""
        written = str(identity).encode() if type(identity) is int else encode(identity)
        return b"".join((_HEAD, written, self.start, text, self.middle, value, self.end))


_HEAD = b'{"jsonrpc":"2.0","id":'


def template(wire: Callable[[Any], dict[str, Any]], *, structured: bool, wrapped: bool) -> Template:
    """Cut a reply that the full lane would write at the places where a text and a value stand.

    Args:
        wire: makes of a result what the SDK sends in some protocol version.
        structured: whether there is structured content at all; if not, `fill` takes an empty value.
        wrapped: whether the value is put into an object under `result`.
    """
    content: Any = {"value": _VALUE} if not wrapped else {"result": _VALUE}
    result = CallToolResult(
        content=[TextContent(type="text", text=_TEXT)],
        structured_content=content if structured else None,
        _meta=WRAPPED if wrapped else None,
    )
    written = encode(_ordered(wire(result)))
    value = encode(_VALUE) if wrapped else encode(content)
    before, after = written.split(encode(_TEXT))
    middle, end = after.split(value) if structured else (after, b"")
    return Template(b',"result":' + before, middle, end + b"}")


def _ordered(result: dict[str, Any]) -> dict[str, Any]:
    """The same with the text ahead of the structured content."""
    return {key: result[key] for key in sorted(result, key=lambda key: key == "structuredContent")}
