"""Whether a reply is the one that was expected."""

from typing import Any

import orjson


def fault(expected: Any, status: bytes, body: bytes) -> str:
    """What is wrong with an HTTP reply, in words; empty if it is as expected."""
    if status != b"200":
        return f"wrong reply: HTTP {status.decode('latin-1')}: {_shown(body.decode('utf-8', 'replace'))}"
    try:
        reply = orjson.loads(body)
    except ValueError:
        return f"wrong reply: no JSON: {_shown(body)}"
    found = difference(expected, reply)
    return f"wrong reply: {found}" if found else ""


def difference(expected: Any, actual: Any, where: str = "reply") -> str:
    """Where a JSON value first differs from what was expected, in words; empty if it doesn't.

    An object may have members that aren't expected; a list may not have items that aren't. `True` is no 1.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name, value in expected.items():
            if name not in actual:
                return f"{where} has no {name!r}"
            if found := difference(value, actual[name], f"{where}.{name}"):
                return found
        return ""
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return f"{where} has {len(actual)} items, not {len(expected)}"
        pairs = zip(expected, actual, strict=True)
        return next(filter(None, (difference(*pair, f"{where}[{at}]") for at, pair in enumerate(pairs))), "")
    same = type(expected) is type(actual) and expected == actual
    return "" if same else f"{where} is {_shown(actual)}, not {_shown(expected)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
