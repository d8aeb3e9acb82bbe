"""Texts about wrong arguments, never too long: a caller may send a hundred thousand wrong ones."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

_TOLD = 10
"""Most problems in one text."""

_LISTED = 1000
"""With more problems, none is listed, because pydantic writes all of them or none."""

_LONGEST = 500
"""Most characters of one problem."""

LONGEST_TEXT = 64 * 1024
"""Most characters of an error's text."""


def unknown(arguments: Mapping[str, Any], known: Iterable[str]) -> str:
    """A text about names that aren't known, found before values are validated; empty if there is nothing to say."""
    if len(arguments) <= _TOLD:  # validation reports these
        return ""
    known = set(known)
    names = [name for name in arguments if name not in known]
    return _text(len(names), [f"{name[:_LONGEST]}: unknown argument" for name in names[:_TOLD]]) if names else ""


def told(error: ValidationError, whole: str = "arguments") -> str:
    """The first problems, and the number of all. `whole` names what is wrong if no single value is."""
    found: list[str] = []
    if error.error_count() <= _LISTED:
        for each in error.errors(include_url=False, include_context=False, include_input=False)[:_TOLD]:
            place = ".".join(str(part)[:_LONGEST] for part in each["loc"])
            found.append(f"{place or whole}: {each['msg']}"[:_LONGEST])
    return _text(error.error_count(), found)


def is_short(error: ValidationError) -> bool:
    """Whether there are so few problems that a text may list them all."""
    return error.error_count() <= _TOLD


def _text(count: int, problems: list[str]) -> str:
    if count == len(problems):
        return "; ".join(problems)
    if not problems:
        return f"{count} problems with the arguments, too many to list"
    return f"{count} problems with the arguments, of which the first are: " + "; ".join(problems)
