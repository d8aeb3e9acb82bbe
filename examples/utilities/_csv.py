"""CSV (RFC 4180) with a header line; a CSV document is a list of objects with text values."""

import csv
import io
from datetime import date, time
from typing import Any

from examples.utilities._document import MOST_WRITTEN, Malformed, Unfit, shown


def read(text: str) -> list[dict[str, str]]:
    """Parse a text and return its value.

    Raises:
        Malformed: The text is not CSV, its lines have different numbers of fields, or the header has a name twice.
    """
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    found: list[dict[str, str]] = []
    try:
        header = next(lines, [])
        if not header:
            raise Malformed("the header line is missing")
        if len(set(header)) < len(header):
            raise Malformed("the header has the same name twice")
        for fields in lines:
            if fields and len(fields) != len(header):
                raise Malformed(f"line {lines.line_num}: {len(fields)} fields, but the header has {len(header)}")
            if fields:
                found.append(dict(zip(header, fields, strict=True)))
    except csv.Error as error:
        raise Malformed(f"line {lines.line_num}: {error}") from None
    return found


def write(value: Any) -> str:
    """Return the text of a value; null and a missing key become an empty field.

    Raises:
        Unfit: The value is not a list of objects with single values.
    """
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Unfit("a CSV document must be a list of objects")
    header = list(dict.fromkeys(key for each in value for key in each))
    if not header:
        raise Unfit("a CSV document needs at least one column")
    if len(header) * len(value) > MOST_WRITTEN:
        raise Unfit("the CSV document would have too many fields")
    written = io.StringIO(newline="")
    lines = csv.writer(written)
    lines.writerow(header)
    lines.writerows([_field(key, each.get(key)) for key in header] for each in value)
    return written.getvalue()


def _field(key: str, value: Any) -> str:
    if isinstance(value, dict | list):
        raise Unfit(f"a CSV field must be a single value, but {shown(key)} is a list or an object")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
