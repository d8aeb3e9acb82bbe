"""What formats have in common: values that all of them are read into, and why some can't be."""

from datetime import date, time
from typing import Any

MOST_CHARACTERS = 128 * 1024
"""Of a text that is read."""
MOST_WRITTEN = 1024 * 1024
DEEPEST = 50
"""How many lists and objects may stand within each other."""


class Malformed(Exception):
    """A text isn't of its format. `str()` says why."""


class Unfit(Exception):
    """A text may be of its format, and still isn't converted. `str()` says why."""


def plain(value: Any, depth: int = 0) -> Any:
    """A copy of a value in which nothing is shared: lists, objects, texts, numbers, booleans, null, dates and times.

    Raises:
        Unfit: it is nested deeper than `DEEPEST`, or holds a key that is no text, or text that isn't Unicode.
    """
    if depth > DEEPEST:
        raise Unfit(f"it is nested deeper than {DEEPEST} lists and objects")
    if isinstance(value, dict):
        return {_key(key): plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each, depth + 1) for each in value]
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool | int | float | date | time):
        return value
    raise Unfit(f"it holds a {type(value).__name__}, which other formats don't have")


def _key(key: object) -> str:
    if isinstance(key, str):
        return _text(key)
    raise Unfit(f"a key is no text but {shown(key)}; put it into quotation marks")


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unfit("it holds half of a surrogate pair, which no text can") from None
    return text


def shown(value: object) -> str:
    """A part of a text for a message, shortened."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
