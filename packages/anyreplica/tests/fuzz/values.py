"""Unusual values, and JSON texts that no JSON library writes."""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.calls import VERSION
from tests.mcp.test_endpoint import JSON


@dataclass(frozen=True)
class Raw:
    """Text that is inserted into a JSON text unchanged."""

    text: str


def written(value: Any, *, ascii_only: bool) -> str:
    """Return a value as JSON text; `Raw` parts may make it invalid."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        members = (
            f"{json.dumps(key, ensure_ascii=ascii_only)}:{written(member, ascii_only=ascii_only)}"
            for key, member in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(member, ascii_only=ascii_only) for member in value) + "]"
    return json.dumps(value, ensure_ascii=ascii_only)


DEPTHS = (2, 60, 127, 128, 199, 200, 201, 255, 1_000, 10_000, 100_000)

_NUMBERS = ["NaN", "-Infinity", "1e400", "-0.0", "1E+2", "01", "+1", ".5", "0x10", "1_0", "9" * 400, "9" * 5_000]
_NUMBERS += ["0." + "3" * 1_000, "-9223372036854775809", "18446744073709551616", "1e-400", "1e999999999"]

_PLAIN: list[Any] = [None, True, False, 0, -1, 1, 2, 1.5, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**30, 10**400]
_PLAIN += ["", " ", "x" * 100, "x" * 100_000, "\x00", "\x1b[31m", "\r\nX-Forged: 1", "\ud800", "a\udfff", "ä👋\u2028"]
_PLAIN += ["__proto__", "constructor", "__class__", "self", "ctx", "../../etc/passwd", "%00", "%s%n", "{0.__class__}"]
_PLAIN += ["=?base64?dGV4dA==?=", "NaN", "1", "true", "null", "2.0", "echo", "tools/call", VERSION, "2024-11-05"]
_PLAIN += ["template://about", "template://greeting/en/%2e%2e", "file:///etc/passwd", "http://[::1", "urn:"]
_PLAIN += [[], {}, [[]], [None], {"": ""}, {"__proto__": {"a": 1}}, {"a": {"a": {"a": {}}}}, {"x" * 1_000: 1}]
_PLAIN += [["x"] * 1_000, {str(number): number for number in range(300)}]

_RAW = [*_NUMBERS, '"\\ud800"', '"\\u12"', '"\\x41"', '"\t"', "'a'", '"a', "nul", "undefined", "", "1,", "{,}", "[1,]"]
_RAW += ['{"a":1,"a":2}', '{"a" 1}', "{a:1}", '{"name":"echo","name":"add"}', "/**/1", "\ufeff1", "1 2", "\x00", "]"]

_NESTED = [
    Raw(opening * depth + inner + closing * depth)
    for depth in DEPTHS
    for opening, inner, closing in (("[", "", "]"), ('{"a":', "1", "}"), ("[", "", ""))
]

_USUAL = st.sampled_from(_PLAIN)
ODD: st.SearchStrategy[Any] = st.one_of(
    *[_USUAL] * 4, *[JSON] * 3, st.sampled_from([Raw(text) for text in _RAW]), st.sampled_from(_NESTED)
)
"""Unusual values for any place."""

NAMES = ["__proto__", "constructor", "", "jsonrpc", "id", "method", "params", "_meta", "name", "arguments", "x" * 300]
"""Names for added or renamed members."""
