"""What is wrong with arguments, told within bounds: a caller may send a hundred thousand of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

_TOLD = 10
"""Problems that a caller reads of."""

_LISTED = 1000
"""Problems beyond which none is listed: pydantic can only write all of them or none."""

_LONGEST = 500
"""Characters of one problem."""

LONGEST_TEXT = 64 * 1024
"""Characters of an error's text."""


def unknown(arguments: Mapping[str, Any], known: Iterable[str]) -> str:
    """What is told of arguments whose names nobody knows, found before anything is validated; empty if there are none.

    Args:
        known: names that are.
    """
    if len(arguments) <= _TOLD:  # validation itself tells of these
        return ""
    known = set(known)
    names = [name for name in arguments if name not in known]
    return _text(len(names), [f"{name[:_LONGEST]}: unknown argument" for name in names[:_TOLD]]) if names else ""


def told(error: ValidationError, whole: str = "arguments") -> str:
    """The first problems, and how many there are.

    Args:
        whole: what is told to be wrong where it is no single value.
    """
    found: list[str] = []
    if error.error_count() <= _LISTED:
        for each in error.errors(include_url=False, include_context=False, include_input=False)[:_TOLD]:
            place = ".".join(str(part)[:_LONGEST] for part in each["loc"])
            found.append(f"{place or whole}: {each['msg']}"[:_LONGEST])
    return _text(error.error_count(), found)


def is_short(error: ValidationError) -> bool:
    """Whether all problems may be told as they are."""
    return error.error_count() <= _TOLD


def _text(count: int, problems: list[str]) -> str:
    if count == len(problems):
        return "; ".join(problems)
    if not problems:
        return f"{count} problems with the arguments, too many to list"
    return f"{count} problems with the arguments, of which the first are: " + "; ".join(problems)
