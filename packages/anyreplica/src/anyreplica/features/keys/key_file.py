"""The reader of `API_KEYS_FILE`: one JSON object per line. It ignores empty lines and lines that begin with #."""

import json
from collections import defaultdict
from pathlib import Path

from pydantic import ValidationError

from anyreplica.features.keys.key import KeyEntry, problem_of
from anyreplica.signing.keypair import public_key


class KeyFileError(Exception):
    """An error in the key file. `str()` names the file, the line and what to do, and contains no part of a key."""


def read(path: Path) -> list[KeyEntry]:
    """Return the keys of a file, at least one.

    Raises:
        KeyFileError: the file cannot be read, has no key, has a line that is not a key, or has two equal keys.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise KeyFileError(f"{path} cannot be read: {reason}") from None
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                entries.append(_entry(line))
            except ValueError as error:
                raise KeyFileError(f"{path}, line {number}: {error}") from None
    if not entries:
        raise KeyFileError(f"{path} contains no key; run anyreplica keys new to make one")
    for kind in ("id", "hash", "public_key"):
        of_value: dict[str, list[str]] = defaultdict(list)
        for entry in entries:
            of_value[getattr(entry, kind) or ""].append(entry.id)
        of_value.pop("", None)
        for names in of_value.values():
            if len(names) > 1:
                raise KeyFileError(f"{path}: two keys have the same {kind}: {' and '.join(names[:2])}")
    return entries


def _entry(line: str) -> KeyEntry:
    """Read a line. A `ValueError` does not contain the line, because a user may have written a key there by mistake."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not a JSON object; anyreplica keys new prints a valid line") from None
    try:
        entry = KeyEntry.model_validate(values)
        if entry.public_key is not None:
            public_key(entry.public_key)
    except ValidationError as error:
        raise ValueError(problem_of(error)) from None
    return entry
