"""Error texts for invalid arguments, with limited length, because a client may send 100,000 invalid arguments."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

_SHOWN = 10
"""Maximum number of problems in one text."""

_LISTED = 1000
"""Maximum number of problems from which a text lists the first ones. Pydantic can return only all problems at once, so
the text lists none of a larger number."""

_LONGEST = 500
"""Maximum number of characters of one problem."""

LONGEST_TEXT = 64 * 1024
"""Maximum number of characters of an error's text."""


def unknown(arguments: Mapping[str, Any], known: Iterable[str]) -> str:
    """Return a text that lists unknown arguments, without validation of their values; empty if there are none.

    With at most ten arguments the text is empty, because validation reports the unknown ones.
    """
    if len(arguments) <= _SHOWN:
        return ""
    known = dict.fromkeys(known)
    names = [name for name in arguments if name not in known]
    if not names:
        return ""
    found = _text(len(names), [f"{name[:_LONGEST]}: unknown argument" for name in names[:_SHOWN]])
    return with_known(found, arguments, known)


def with_known(text: str, arguments: Iterable[str], known: Iterable[str]) -> str:
    """Return the text of an error. If an argument is unknown, name the known ones, so that a model can correct its
    call.
    """
    names = list(known)
    if set(arguments) <= set(names):
        return text
    return f"{text}\nKnown arguments: {', '.join(names)}" if names else f"{text}\nThere are no arguments"


def describe_validation_error(error: ValidationError, whole: str = "arguments") -> str:
    """Return a text with the first ten problems and the number of all problems.

    Args:
        whole: name of the checked value, for a problem that belongs to no single part of it.
    """
    found: list[str] = []
    if error.error_count() <= _LISTED:
        for each in error.errors(include_url=False, include_context=False, include_input=False)[:_SHOWN]:
            place = ".".join(str(part)[:_LONGEST] for part in each["loc"])
            found.append(f"{place or whole}: {each['msg']}"[:_LONGEST])
    return _text(error.error_count(), found)


def is_short(error: ValidationError) -> bool:
    """Return whether a text may list all problems of an error: there are at most ten."""
    return error.error_count() <= _SHOWN


def _text(count: int, problems: list[str]) -> str:
    if count == len(problems):
        return "; ".join(problems)
    if not problems:
        return f"{count} problems with the arguments, too many to list"
    return f"{count} problems with the arguments. The first {len(problems)}: " + "; ".join(problems)
