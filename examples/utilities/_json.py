"""The format JSON (RFC 8259)."""

import json
import math
from datetime import date, time
from typing import Any, NoReturn

from examples.utilities._document import Malformed, Unfit, shown


def read(text: str) -> Any:
    """Parse a text and return its value.

    Raises:
        Malformed: The text is not JSON, or an object has a key twice, so one value would be lost.
        Unfit: A number is too large.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise Malformed(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError:  # For example: an integer with more digits than Python's limit.
        raise Unfit("a number is too large") from None


def write(value: Any) -> str:
    """Return the text of a value; dates and times become texts.

    Raises:
        Unfit: JSON has no form for a number (RFC 8259, section 6).
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2, default=_iso) + "\n"
    except ValueError:
        raise Unfit("a number is infinite, not a number (NaN), or too large for JSON") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Malformed(f"an object has the key {shown(key)} twice")
        found[key] = value
    return found


def _no_number(name: str) -> NoReturn:
    raise Malformed(f"{name} is not valid in JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise Unfit("a number is too large")
    return number


def _iso(value: date | time) -> str:
    return value.isoformat()
