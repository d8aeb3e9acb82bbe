"""The file of keys (`API_KEYS_FILE`): a JSON object a line, empty lines and lines that begin with # left out."""

import json
from collections import defaultdict
from pathlib import Path

from pydantic import ValidationError

from mcp_swarm.auth.key import KeyEntry, problem_of
from mcp_swarm.signing.keypair import public_key


class KeyFileError(Exception):
    """The file can't be used. `str()` names file and line and what to do, and holds nothing of a key."""


def read(path: Path) -> list[KeyEntry]:
    """The keys of a file, at least one.

    Raises:
        KeyFileError: it can't be read, or one of its lines is no key, or two are the same.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't text"
        raise KeyFileError(f"{path}: can't be read: {reason}") from None
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                entries.append(_entry(line))
            except ValueError as error:
                raise KeyFileError(f"{path}, line {number}: {error}") from None
    if not entries:
        raise KeyFileError(f"{path}: holds no key; mcp-swarm keys new makes one")
    for kind in ("id", "hash", "public_key"):
        of_value: dict[str, list[str]] = defaultdict(list)
        for entry in entries:
            of_value[getattr(entry, kind) or ""].append(entry.id)
        of_value.pop("", None)
        for names in of_value.values():
            if len(names) > 1:
                raise KeyFileError(f"{path}: the same {kind} twice, in {' and '.join(names[:2])}")
    return entries


def _entry(line: str) -> KeyEntry:
    """Read a line. The text of a `ValueError` doesn't repeat the line, which may hold a key put there by mistake."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON object; mcp-swarm keys new prints one") from None
    try:
        entry = KeyEntry.model_validate(values)
        if entry.public_key is not None:
            public_key(entry.public_key)
    except ValidationError as error:
        raise ValueError(problem_of(error)) from None
    return entry
