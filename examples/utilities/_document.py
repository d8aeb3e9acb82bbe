"""Common parts of all formats: limits, errors and the common set of values."""

from datetime import date, time
from typing import Any

MOST_CHARACTERS = 128 * 1024
"""Maximum length of an input text, in characters."""
MOST_WRITTEN = 1024 * 1024
"""Maximum length of an output text, in characters."""
DEEPEST = 50
"""Maximum depth of nested lists and objects."""


class Malformed(Exception):
    """A text does not follow its format; `str()` gives the reason."""


class Unfit(Exception):
    """A text can't be processed, although its format may be correct; `str()` gives the reason."""


def plain(value: Any, depth: int = 0) -> Any:
    """Return a deep copy of a value of lists, objects, texts, numbers, booleans, null, dates and times.

    Raises:
        Unfit: The value is nested too deeply, contains another type, or has a key that is not text, or text that is
            not Unicode.
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
    raise Unfit(f"it contains a value of the type {type(value).__name__}, which other formats don't have")


def _key(key: object) -> str:
    if isinstance(key, str):
        return _text(key)
    raise Unfit(f"the key {shown(key)} is not text; put it into quotation marks")


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unfit("it contains half of a surrogate pair, which is not valid Unicode") from None
    return text


def shown(value: object) -> str:
    """Return a value as ASCII text for a message, shortened to 80 characters."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
