"""How many values a JSON document holds, found before it is parsed.

Parsing holds up the event loop, in a thread as well: it never gives Python's lock away. How long it takes, and how much
memory, follows from the number of values: 4 MB of text take 1 ms, and 4 MB of empty arrays 150 ms and 90 MB.
"""

_MARKS = (b",", b":", b"[", b"{")
"""One of these stands before each value but the first."""

BYTES_PER_VALUE = 100
"""Memory that a value takes, about, besides its text."""


def count(document: bytes, enough: int) -> int:
    """The number of values, or more; exact as to structure only beyond `enough`, where marks within text don't count.

    Args:
        document: JSON, or anything.
        enough: a number that is of no interest to be below.
    """
    if len(document) <= enough:
        return len(document)
    marks = _marks(document)
    if marks <= enough:
        return marks
    unescaped = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = unescaped.count(b'"')
    if quotes > 2 * (enough + 1):  # each text is a value or a name
        return quotes // 2
    return _marks(b"".join(unescaped.split(b'"')[::2]))


def _marks(text: bytes) -> int:
    return sum(text.count(mark) for mark in _MARKS)
