"""The comparison of a reply with the expected reply."""

from typing import Any

import orjson


def fault(expected: Any, status: bytes, body: bytes) -> str:
    """Return what is wrong with an HTTP reply; empty if the reply is as expected."""
    if status != b"200":
        return f"wrong reply: HTTP {status.decode('latin-1')}: {_short(body.decode('utf-8', 'replace'))}"
    try:
        reply = orjson.loads(body)
    except ValueError:
        return f"wrong reply: no JSON: {_short(body)}"
    found = difference(expected, reply)
    return f"wrong reply: {found}" if found else ""


def difference(expected: Any, actual: Any, where: str = "reply") -> str:
    """Return the first difference between two JSON values; empty if there is none.

    An object may have more members than expected; a list may not have more items. `True` is not 1.
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
    return "" if same else f"{where} is {_short(actual)}, not {_short(expected)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
