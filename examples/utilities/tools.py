"""Tools that convert a text from one format to another, and that check formats.

The tools store nothing and call no other service. An input text has at most 131,072 characters and 50 levels of nested
lists and objects. An output text has at most 1,048,576 characters.
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
    """The result of a check."""

    valid: bool
    reason: str | None = Field(description="Reason why the text is invalid; null: the text is valid")


@tool(annotations={"readOnlyHint": True, "idempotentHint": True})
def convert_format(text: Text, source: Format, target: Format) -> str:
    """Convert a text from one format to another.

    A CSV document is a list of objects: the first line has the keys, and all values are texts. Dates and times become
    texts in JSON and CSV. The conversion loses comments and the layout.

    Args:
        text: The text to convert. It must be one document.
        source: Format of the text.
        target: Format of the result.

    Raises:
        ToolError: The text does not follow its format, is too large or nested too deeply, or contains a value that
            the other format does not have.
    """
    try:
        written = _WRITE[target](plain(_read(text, source)))
    except Malformed as error:
        raise ToolError(f"The text is not valid {source.upper()}: {error}") from None
    except Unfit as error:
        raise ToolError(f"The text can't be converted: {error}") from None
    if len(written) > MOST_WRITTEN:
        raise ToolError(f"The text can't be converted: the result would be longer than {MOST_WRITTEN} characters")
    return written


@tool(annotations={"readOnlyHint": True, "idempotentHint": True})
def validate_format(text: Text, kind: Kind) -> Validity:
    """Check whether a text follows a format, and return the reason if it does not.

    Args:
        text: The complete text; leading and trailing spaces count.
        kind: The format of a document or of a word. Documents: keys must be unique, and all lines of CSV must have the
            same number of fields. Words: a URL needs scheme and host (RFC 3986), a date-time follows RFC 3339, an IP
            address has no zone.

    Raises:
        ToolError: The text is too large or nested too deeply to check.
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
        raise ToolError(f"The text can't be checked: {error}") from None
    return Validity(valid=not reason, reason=reason or None)


def _read(text: str, source: str) -> Any:
    try:
        return _READ[source](text.lstrip("\ufeff"))
    except RecursionError:
        raise Unfit("it is nested too deeply") from None
