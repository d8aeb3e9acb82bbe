"""CSV (RFC 4180) with a header line: a list of objects, whose values are texts."""

import csv
import io
from datetime import date, time
from typing import Any

from examples.utilities._document import MOST_WRITTEN, Malformed, Unfit, shown


def read(text: str) -> list[dict[str, str]]:
    """A value from its text.

    Raises:
        Malformed: it is no CSV, its lines have different numbers of fields, or a name is in the header twice.
    """
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    found: list[dict[str, str]] = []
    try:
        header = next(lines, [])
        if not header:
            raise Malformed("there is no header line")
        if len(set(header)) < len(header):
            raise Malformed("a name is in the header twice")
        for fields in lines:
            if fields and len(fields) != len(header):
                raise Malformed(f"line {lines.line_num}: {len(fields)} fields, and {len(header)} in the header")
            if fields:
                found.append(dict(zip(header, fields, strict=True)))
    except csv.Error as error:
        raise Malformed(f"line {lines.line_num}: {error}") from None
    return found


def write(value: Any) -> str:
    """The text of a value. Null, and what an object lacks, becomes an empty field.

    Raises:
        Unfit: it isn't a list of objects of single values.
    """
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Unfit("CSV is a list of objects, and this is none")
    header = list(dict.fromkeys(key for each in value for key in each))
    if not header:
        raise Unfit("CSV has at least one column, and this has none")
    if len(header) * len(value) > MOST_WRITTEN:
        raise Unfit("it would have too many fields")
    written = io.StringIO(newline="")
    lines = csv.writer(written)
    lines.writerow(header)
    lines.writerows([_field(key, each.get(key)) for key in header] for each in value)
    return written.getvalue()


def _field(key: str, value: Any) -> str:
    if isinstance(value, dict | list):
        raise Unfit(f"CSV holds single values, and {shown(key)} has several")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
