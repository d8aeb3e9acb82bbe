"""JSON (RFC 8259)."""

import json
import math
from datetime import date, time
from typing import Any, NoReturn

from examples.utilities._document import Malformed, Unfit, shown


def read(text: str) -> Any:
    """A value from its text.

    Raises:
        Malformed: it is no JSON, or an object has a key twice, of which one would be lost.
        Unfit: a number is too large.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise Malformed(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError:  # as of an integer of more digits than Python reads
        raise Unfit("a number is too large") from None


def write(value: Any) -> str:
    """The text of a value; dates and times become texts.

    Raises:
        Unfit: a number is none to JSON (section 6).
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2, default=_iso) + "\n"
    except ValueError:
        raise Unfit("a number is infinite, or none, or too large for JSON") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Malformed(f"the key {shown(key)} is there twice")
        found[key] = value
    return found


def _no_number(name: str) -> NoReturn:
    raise Malformed(f"{name} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise Unfit("a number is too large")
    return number


def _iso(value: date | time) -> str:
    return value.isoformat()
