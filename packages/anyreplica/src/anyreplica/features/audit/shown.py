"""The allow-list of arguments. The audit log shows the values of these arguments."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import translate
from functools import lru_cache

import orjson
from pydantic_core import from_json

MOST_SHOWN_BYTES = 1200
"""Maximum size of the arguments in an entry, in bytes of JSON. So an entry is shorter than 4096 bytes, and a pipe
keeps it in one piece."""

_MOST_READ = 64 * 1024
"""Maximum size of arguments that are searched, in bytes. The event loop waits while the thread parses arguments."""

_ENCODER = json.JSONEncoder(separators=(",", ":"))


class Shown:
    """The allow-list: patterns of the form `tool.argument` for `fnmatch`, like `echo.message` or `sales_*.region`.

    The last dot separates the two parts. The names of prompts and jobs count like names of tools.

    Raises:
        ValueError: a pattern is not valid.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [_pattern(text) for text in patterns]
        self._names = lru_cache(maxsize=256)(self._names_of)

    def pick(self, name: str, arguments: bytes) -> tuple[bytes | None, bool]:
        """Return the arguments of a call that the log may show. `arguments` is canonical JSON.

        Returns:
            A JSON object, or None if there is nothing to show; and whether an argument on the allow-list was left out
            because it is too long.
        """
        wanted = self._names(name) if self._patterns and arguments else None
        if wanted is None:
            return None, False
        if len(arguments) > _MOST_READ:
            return None, True
        try:
            given = from_json(arguments, allow_inf_nan=False)
        except ValueError:  # lone surrogates, which JSON from a client does not contain
            return None, True
        return _fitting(given, wanted) if isinstance(given, dict) else (None, False)

    def _names_of(self, name: str) -> re.Pattern[str] | None:
        found = [argument for tool, argument in self._patterns if tool.match(name)]
        return re.compile("|".join(found)) if found else None


def _pattern(text: str) -> tuple[re.Pattern[str], str]:
    tool, _, argument = text.rpartition(".")
    if not tool or not argument or not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is not a pattern; write tool.argument, for example echo.message or sales_*.year")
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
    """Return JSON that is pure ASCII, so that no character breaks a line or hides a part of it."""
    with suppress(orjson.JSONEncodeError):  # an integer beyond 64 bits
        if (text := orjson.dumps(value)).isascii():
            return text
    return _ENCODER.encode(value).encode()
