"""The allow-list of arguments whose values the audit log shows."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import translate
from functools import lru_cache

import orjson
from pydantic_core import from_json

MOST_SHOWN_BYTES = 1200
"""Of JSON that a line shows. With the rest of it, a line is shorter than 4096 bytes, which pipes keep in one piece."""

_MOST_READ = 64 * 1024
"""Bytes of arguments in which one is looked for: reading more would hold up the event loop, too."""

_ENCODER = json.JSONEncoder(separators=(",", ":"))


class Shown:
    """Picks what may be shown, by patterns like `echo.message` or `sales_*.region`: `tool.argument`, as in `fnmatch`.

    The last dot is the one between them. Prompts and jobs count by their names as tools do.

    Raises:
        ValueError: one is no pattern.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [_pattern(text) for text in patterns]
        self._names = lru_cache(maxsize=256)(self._names_of)

    def pick(self, name: str, arguments: bytes) -> tuple[bytes | None, bool]:
        """What to show of a call's arguments, which are canonical JSON.

        Returns:
            A JSON object, or None if there is nothing to show; and whether something that is on the list was left
            out since it is too long.
        """
        wanted = self._names(name) if self._patterns and arguments else None
        if wanted is None:
            return None, False
        if len(arguments) > _MOST_READ:
            return None, True
        try:
            given = from_json(arguments, allow_inf_nan=False)
        except ValueError:  # lone surrogates, which are in no JSON that came from a caller
            return None, True
        return _fitting(given, wanted) if isinstance(given, dict) else (None, False)

    def _names_of(self, name: str) -> re.Pattern[str] | None:
        found = [argument for tool, argument in self._patterns if tool.match(name)]
        return re.compile("|".join(found)) if found else None


def _pattern(text: str) -> tuple[re.Pattern[str], str]:
    tool, _, argument = text.rpartition(".")
    if not tool or not argument or not text.isprintable() or " " in text:
        raise ValueError(
            f"{text!r} is no pattern of arguments; one is tool.argument, like echo.message or sales_*.year"
        )
    return re.compile(translate(tool)), translate(argument)


def _fitting(given: dict[str, object], wanted: re.Pattern[str]) -> tuple[bytes | None, bool]:
    parts, size, too_long = [], 0, False
    for name, value in given.items():
        if not wanted.match(name):
            continue
        part = b"%b:%b" % (_ascii(name), _ascii(value))
        if size + len(part) > MOST_SHOWN_BYTES:
            too_long = True
        else:
            parts.append(part)
            size += len(part) + 1
    return b"{%b}" % b",".join(parts) if parts else None, too_long


def _ascii(value: object) -> bytes:
    """JSON of ASCII alone, so that no character breaks a line or hides a part of it."""
    with suppress(orjson.JSONEncodeError):  # an integer beyond 64 bits
        if (text := orjson.dumps(value)).isascii():
            return text
    return _ENCODER.encode(value).encode()
