"""Texts in common formats: converted from one to another, and checked. Nothing is kept, and nobody else is asked.

Texts of up to 128 Ki characters are read, nested up to fifty levels; what comes of them has up to 1 Mi.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from fastmcp.exceptions import ToolError
from fastmcp.tools import tool
from pydantic import BaseModel, Field

from examples.utilities import _csv, _json, _toml, _words, _yaml
from examples.utilities._document import MOST_CHARACTERS, MOST_WRITTEN, Malformed, Unfit, plain

Format = Literal["json", "yaml", "toml", "csv"]
Kind = Literal["json", "yaml", "toml", "csv", "uuid", "url", "date-time", "ipv4", "ipv6"]
Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]

_READ: Mapping[str, Callable[[str], Any]] = {
    "json": _json.read,
    "yaml": _yaml.read,
    "toml": _toml.read,
    "csv": _csv.read,
}
_WRITE: Mapping[str, Callable[[Any], str]] = {
    "json": _json.write,
    "yaml": _yaml.write,
    "toml": _toml.write,
    "csv": _csv.write,
}
_WORDS: Mapping[str, Callable[[str], str]] = {
    "uuid": _words.uuid,
    "url": _words.url,
    "date-time": _words.date_time,
    "ipv4": _words.ipv4,
    "ipv6": _words.ipv6,
}


class Validity(BaseModel):
    """Whether a text is of a format."""

    valid: bool
    reason: str | None = Field(description="Why it isn't; null: it is")


@tool(annotations={"readOnlyHint": True, "idempotentHint": True})
def convert_format(text: Text, source: Format, target: Format) -> str:
    """Convert a text from one format to another.

    CSV is a list of objects: its first line names their keys, and all their values are texts. Dates and times become
    texts in JSON and CSV. Comments, and how a text is laid out, are lost.

    Args:
        text: What to convert, one document.
        source: The format that it has.
        target: The format that it should get.

    Raises:
        ToolError: the text isn't of its format, too large or nested too deeply, or holds what the other one can't.
    """
    try:
        written = _WRITE[target](plain(_read(text, source)))
    except Malformed as error:
        raise ToolError(f"this is no {source.upper()}: {error}") from None
    except Unfit as error:
        raise ToolError(f"this isn't converted: {error}") from None
    if len(written) > MOST_WRITTEN:
        raise ToolError(f"this isn't converted: it would become longer than {MOST_WRITTEN} characters")
    return written


@tool(annotations={"readOnlyHint": True, "idempotentHint": True})
def validate_format(text: Text, kind: Kind) -> Validity:
    """Check whether a text is of a format, and tell why it isn't.

    Args:
        text: All of it; spaces around a word count.
        kind: The format: that of a document (keys must be unique; all lines of CSV have as many fields as its first),
            or of a word: a URL with scheme and host (RFC 3986), a moment (RFC 3339), an IP address without zone.

    Raises:
        ToolError: it is too large or nested too deeply to tell.
    """
    try:
        if kind in _WORDS:
            reason = _WORDS[kind](text)
        else:
            _read(text, kind)
            reason = ""
    except Malformed as error:
        reason = str(error)
    except Unfit as error:
        raise ToolError(f"this isn't checked: {error}") from None
    return Validity(valid=not reason, reason=reason or None)


def _read(text: str, source: str) -> Any:
    try:
        return _READ[source](text.removeprefix("\ufeff"))
    except RecursionError:
        raise Unfit("it is nested too deeply") from None
