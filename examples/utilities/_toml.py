"""The format TOML 1.0."""

import json
import re
import tomllib
from collections.abc import Iterator
from datetime import date, time
from typing import Any

from examples.utilities._document import DEEPEST, Malformed, Unfit

_BARE = r"[A-Za-z0-9_-]"
_LONG_KEY = re.compile(
    rf"""(?<!{_BARE})(?:(?:{_BARE}++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{DEEPEST}}}"""
)
"""A dotted key with more names than the maximum depth. The memory that Python's parser needs for such a key grows with
the square of the number of names."""


def read(text: str) -> dict[str, Any]:
    """Parse a text and return its value.

    Raises:
        Malformed: The text is not TOML.
        Unfit: A number is too large, or a dotted key has too many names.
    """
    if _LONG_KEY.search(text):
        raise Unfit(f"a dotted key has more than {DEEPEST} names")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Malformed(str(error)) from None
    except ValueError:  # For example: an integer with more digits than Python's limit.
        raise Unfit("a number is too large") from None


def write(value: Any) -> str:
    """Return the text of a value.

    Raises:
        Unfit: The value is not an object, or contains a value that TOML does not have.
    """
    if not isinstance(value, dict):
        raise Unfit("a TOML document must be a table at the top level")
    return "".join(f"{line}\n" for line in _section(value, ()))


def _section(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    if path and not (inner and len(inner) == len(table)):
        yield f"[{'.'.join(path)}]"
    for key, value in table.items():
        if key not in inner:
            yield f"{_key(key)} = {_written(value)}"
    for key, value in inner.items():
        yield from _section(value, (*path, _key(key)))


def _key(key: str) -> str:
    return key if re.fullmatch(f"{_BARE}+", key) else _quoted(key)


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(_written(each) for each in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise Unfit("an integer is too large for TOML, which has 64 bits")
    if isinstance(value, date | time):
        return value.isoformat()
    if value is None:
        raise Unfit("TOML has no null")
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    # TOML's basic strings are like JSON's strings, except for one control character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
