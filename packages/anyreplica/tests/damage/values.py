"""JSON values of any kind, unusual values, and JSON texts that no JSON library writes."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.calls import VERSION
from tests.damage.dice import Dice


@dataclass(frozen=True)
class Raw:
    """Text that is inserted into a JSON text unchanged."""

    text: str


Values = Callable[[Dice], Any]
"""A generator of values."""


def written(value: Any, *, ascii_only: bool) -> str:
    """Return a value as JSON text; `Raw` parts may make it invalid."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        texts = ((json.dumps(key, ensure_ascii=ascii_only), member) for key, member in value.items())
        return "{" + ",".join(f"{key}:{written(member, ascii_only=ascii_only)}" for key, member in texts) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(member, ascii_only=ascii_only) for member in value) + "]"
    return json.dumps(value, ensure_ascii=ascii_only)


DEPTHS = (2, 60, 127, 128, 199, 200, 201, 255, 1_000, 10_000, 100_000)

_NUMBERS = ["1e400", "-1e400", "1.0", "-0", "-0.0", "1E+2", "1e22", "1e-400", "0.1000000000000000055511151231257827"]
_NUMBERS += ["18446744073709551616", "-9223372036854775809", "12345678901234567890123456789012345", "NaN", "-Infinity"]
"""Numbers in forms that Python does not write."""

_RAW = ["01", "+1", ".5", "0x10", "1_0", "9" * 400, "9" * 5_000, "0." + "3" * 1_000, "1e999999999", "2", "]"]
_RAW += ['"\\ud800"', '"\\u12"', '"\\x41"', '"\t"', "'a'", '"a', "nul", "undefined", "", "1,", "{,}", "[1,]", "\x00"]
_RAW += ['{"a":1,"a":2}', '{"a" 1}', "{a:1}", '{"name":"echo","name":"add"}', "/**/1", "\ufeff1", "1 2"]

_USUAL: list[Any] = [None, True, False, 0, -1, 1, 2, 1.5, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**30, 10**400]
_USUAL += ["", " ", "x" * 100, "x" * 100_000, "\x00", "\x1b[31m", "\r\nX-Forged: 1", "\ud800", "a\udfff", "ä👋\u2028"]
_USUAL += ["__proto__", "constructor", "__class__", "self", "ctx", "../../etc/passwd", "%00", "%s%n", "{0.__class__}"]
_USUAL += ["=?base64?dGV4dA==?=", "NaN", "1", "true", "null", "2.0", "echo", "tools/call", VERSION, "2024-11-05"]
_USUAL += ["template://about", "template://greeting/en/%2e%2e", "file:///etc/passwd", "http://[::1", "urn:"]
_USUAL += [[], {}, [[]], [None], {"": ""}, {"__proto__": {"a": 1}}, {"a": {"a": {"a": {}}}}, {"x" * 1_000: 1}]
_USUAL += [["x"] * 1_000, {str(number): number for number in range(300)}]

_NESTED = [
    Raw(opening * depth + inner + closing * depth)
    for depth in DEPTHS
    for opening, inner, closing in (("[", "", "]"), ('{"a":', "1", "}"), ("[", "", ""))
]

_TEXTS = ["", "nobody", "crash", "leave", "null", "1.5", "ft", "ä👋", "\ud800", "\x00", "NaN", "the text goes here"]
_SCALARS: list[Values] = [
    lambda dice: dice.one_of([None, True, False]),
    lambda dice: dice.below(160) - 3,
    lambda dice: int.from_bytes(dice.bytes(10), "big", signed=True),
    lambda dice: dice.one_of([0.5, -0.0, 1e22, 1e308, 5e-324, float("nan"), float("-inf"), dice.below(9999) / 7]),
    lambda dice: dice.text(),
    lambda dice: dice.one_of(_TEXTS),
]


def plain(dice: Dice, depth: int = 3) -> Any:
    """Return any JSON value that Python has a type for."""
    kind = dice.below(8) if depth else 7
    if kind == 0:
        return [plain(dice, depth - 1) for _ in range(dice.below(5))]
    if kind == 1:
        return {dice.text(): plain(dice, depth - 1) for _ in range(dice.below(5))}
    return dice.one_of(_SCALARS)(dice)


def valid(dice: Dice) -> Any:
    """Return any JSON value, also numbers in forms that Python does not write."""
    return Raw(dice.one_of(_NUMBERS)) if dice.once_in(8) else plain(dice)


def odd(dice: Dice) -> Any:
    """Return an unusual value for any place. One of five is no valid JSON, or is nested."""
    kind = dice.below(10)
    if kind < 4:
        return dice.one_of(_USUAL)
    if kind < 8:
        return valid(dice)
    return Raw(dice.one_of(_RAW)) if kind == 8 else dice.one_of(_NESTED)


@st.composite
def _drawn(draw: st.DrawFn) -> Any:
    return json.loads(json.dumps(plain(Dice.drawn(draw)), ensure_ascii=False).encode("utf-8", "replace"))


JSON: st.SearchStrategy[Any] = _drawn()
"""Any value that a JSON parser returns, for a test with Hypothesis. It has no lone surrogates."""

NAMES = ["__proto__", "constructor", "", "jsonrpc", "id", "method", "params", "_meta", "name", "arguments", "x" * 300]
NAMES += ["ctx", "one", "value", "self", "end", "wish"]
"""Names for added or renamed members."""
