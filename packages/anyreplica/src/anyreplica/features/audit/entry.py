"""The reader of an audit log's entries."""

import re
from typing import NamedTuple

import orjson

from anyreplica.features.audit.chain import Digest
from anyreplica.features.audit.line import BEGINNING

_TIME = rb"(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) )?"
_PREFIX = re.compile(rb"^" + _TIME + rb"(?:[\w.@-]+ +\| ?)?" + _TIME + rb"(?:stdout F )?")
"""The text that `docker service logs`, `docker compose logs` and container runtimes write before a line. A wider
pattern would let a caller's text in other logs look like an audit entry."""

_WHOLE = re.compile(rb'(.*),"hash":"([0-9a-f]{64})"\}', re.DOTALL)
_SHORTEST_PART = 3


class AuditLine(NamedTuple):
    """The fields of an entry that the check needs. The module `line` describes the fields `time` to `keyed`."""

    true: bool
    """Whether the hash is the digest of the entry's bytes."""
    hash: str
    time: str
    replica: str
    run: str
    seq: int
    prev: str
    event: str
    """Name of the event. Empty: the entry is about a call."""
    after: str
    keyed: bool
    alone: bool = True
    """Whether the line contains only this entry. Another process on the same stdout may have begun the line."""


class NoEntry(Exception):
    """A line that begins like an audit entry but is not a valid entry.

    `str()` says why. It is a sentence without its subject, such as "is incomplete": the report puts the name of the
    line before it.
    """


def read(line: bytes, digest: Digest) -> AuditLine | None:
    """Read a line, with or without its line break and Docker's prefix. Return None for a line of another log.

    Raises:
        NoEntry: the line is only a part of an entry, or its content is not that of an audit entry.
    """
    text = _PREFIX.sub(b"", line.rstrip(b"\r\n"), count=1)
    if text.startswith(BEGINNING):
        return _entry(text, digest)
    if len(text) >= _SHORTEST_PART and BEGINNING.startswith(text):
        raise NoEntry("is only the beginning of an audit entry")
    place = text.find(BEGINNING)
    if place < 0:
        return None
    try:
        return _entry(text[place:], digest)._replace(alone=False)
    except NoEntry:
        return None


def _entry(text: bytes, digest: Digest) -> AuditLine:
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise NoEntry("is incomplete: the process was killed while it wrote, the disk was full, or the line was cut")
    true = digest(whole[1]) == whole[2].decode()
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise NoEntry("was changed: it is not valid JSON") from None
    words = [fields.get(name, "") for name in ("time", "replica", "run", "prev", "event", "after")]
    seq, keyed = fields.get("seq"), fields.get("keyed", False)
    if not all(type(word) is str for word in words) or type(seq) is not int or type(keyed) is not bool:
        raise NoEntry("was changed: its fields are not those of an audit entry")
    time, replica, run, prev, event, after = words
    return AuditLine(true, whole[2].decode(), time, replica, run, seq, prev, event, after, keyed)
