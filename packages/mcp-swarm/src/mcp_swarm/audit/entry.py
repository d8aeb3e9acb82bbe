"""A line of an audit log, as it is read again."""

import re
from typing import NamedTuple

import orjson

from mcp_swarm.audit.chain import Digest
from mcp_swarm.audit.line import BEGINNING

_TIME = rb"(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) )?"
_PREFIX = re.compile(rb"^" + _TIME + rb"(?:[\w.@-]+ +\| ?)?" + _TIME + rb"(?:stdout F )?")
"""What `docker service logs`, `docker compose logs` and container runtimes write ahead of a line; nothing wider, or
text from callers within lines of other logs could pass for a line of this one."""

_WHOLE = re.compile(rb'(.*),"hash":"([0-9a-f]{64})"\}', re.DOTALL)
_SHORTEST_PART = 3


class AuditLine(NamedTuple):
    """What the check needs of a line. `time` to `keyed` are as they stand there (`mcp_swarm.audit.line`)."""

    true: bool
    """Whether its hash is the digest of its bytes."""
    hash: str
    time: str
    replica: str
    run: str
    seq: int
    prev: str
    event: str
    """Empty for a call."""
    after: str
    keyed: bool
    alone: bool = True
    """Whether its line holds nothing else: a process that shares stdout may have begun a line before it."""


class NoEntry(Exception):
    """A line that begins like one of an audit log, and is none. `str()` says why, as the end of a sentence."""


def read(line: bytes, digest: Digest) -> AuditLine | None:
    """Read a line, with or without its line break and what Docker writes ahead of it; None if it is of another log.

    Raises:
        NoEntry: there is only a part of it, or it says nothing that a line of an audit log says.
    """
    text = _PREFIX.sub(b"", line.rstrip(b"\r\n"), count=1)
    if text.startswith(BEGINNING):
        return _entry(text, digest)
    if len(text) >= _SHORTEST_PART and BEGINNING.startswith(text):
        raise NoEntry("is only the beginning of one")
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
        raise NoEntry("isn't whole: a process was killed while it wrote it, the disk was full, or it was cut")
    true = digest(whole[1]) == whole[2].decode()
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise NoEntry("was changed: it isn't JSON any more") from None
    words = [fields.get(name, "") for name in ("time", "replica", "run", "prev", "event", "after")]
    seq, keyed = fields.get("seq"), fields.get("keyed", False)
    if not all(type(word) is str for word in words) or type(seq) is not int or type(keyed) is not bool:
        raise NoEntry("was changed: it isn't what an audit log writes")
    time, replica, run, prev, event, after = words
    return AuditLine(true, whole[2].decode(), time, replica, run, seq, prev, event, after, keyed)
