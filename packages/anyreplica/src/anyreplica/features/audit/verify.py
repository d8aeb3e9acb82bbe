"""The check that an audit log has all its entries, unchanged and in their order.

The check has two limits. First, somebody may have removed the last entries of a run. The check cannot detect this if
the run has no entry `ended` and no other run begins later in the file. To detect this, record a hash at another place
and pass it as an expected hash. If the entry with this hash exists, all earlier entries exist, too. Second, without a
key, a person who can write the file can write a complete new chain.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from anyreplica.features.audit.line import BEGINNING, Digests, Hasher

MOST_PROBLEMS = 1000
"""Maximum number of problems that a report lists."""

_TIME = rb"(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) )?"

_PREFIX = re.compile(rb"^" + _TIME + rb"(?:[\w.@-]+ +\| ?)?" + _TIME + rb"(?:stdout F )?")
"""The text that `docker service logs`, `docker compose logs` and container runtimes write before a line. A wider
pattern would let a caller's text in other logs look like an audit entry."""

_WHOLE = re.compile(rb'(.*),"hash":"([0-9a-f]{64})"\}', re.DOTALL)

_SHORTEST_PART = 3


@dataclass(slots=True)
class AuditRun:
    """The entries of one process. `first` and `last` are times; `hash` and `seq` belong to the last entry."""

    replica: str
    run: str
    begins: str
    """The first event: `begun`, or `continued` if an earlier file has the beginning. Empty: the run has no such event,
    because its first entries are missing."""
    first: str
    last: str
    hash: str
    seq: int
    readable: bool
    """Whether the check can verify the hashes: the log and the check both use a key, or both use none."""
    lines: int = 0
    ended: bool = False
    """Whether the process stopped normally, so that no entry is missing at the end."""
    sure: bool = True
    """Whether the last entry still has its original hash."""
    missing: list[range] = field(default_factory=list)
    """Missing sequence numbers (`seq`)."""


@dataclass(slots=True)
class AuditReport:
    """All runs, the first `MOST_PROBLEMS` problems, and `more`, the number of further problems."""

    runs: list[AuditRun] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    more: int = 0

    @property
    def lines(self) -> int:
        """Number of entries in all runs."""
        return sum(run.lines for run in self.runs)

    @property
    def intact(self) -> bool:
        """Whether there are entries and no problems. An empty log is not intact."""
        return bool(self.runs) and not self.problems

    def add(self, problem: str) -> None:
        """Add a problem, or only count it when the list is full."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)
        else:
            self.more += 1


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


def read(line: bytes, hasher: Hasher) -> AuditLine | None:
    """Read a line, with or without its line break and Docker's prefix. Return None for a line of another log.

    Raises:
        NoEntry: the line is only a part of an entry, or its content is not that of an audit entry.
    """
    text = _PREFIX.sub(b"", line.rstrip(b"\r\n"), count=1)
    if text.startswith(BEGINNING):
        return _entry(text, hasher)
    if len(text) >= _SHORTEST_PART and BEGINNING.startswith(text):
        raise NoEntry("is only the beginning of an audit entry")
    place = text.find(BEGINNING)
    if place < 0:
        return None
    try:
        return _entry(text[place:], hasher)._replace(alone=False)
    except NoEntry:
        return None


def _entry(text: bytes, hasher: Hasher) -> AuditLine:
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise NoEntry("is incomplete: the process was killed while it wrote, the disk was full, or the line was cut")
    true = hasher(whole[1]).hexdigest() == whole[2].decode()
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


class Verifier:
    """The check of an audit log, line by line. The lines come from one or more files, or from the stdout of services.

    Pass the oldest file first. `key` is the key of the log. `part` says that the lines are a part of a longer log, in
    which runs may begin in the middle. `expected` contains the hashes of entries that must be there.

    Raises:
        ValueError: the key is too short.
    """

    def __init__(self, key: bytes | None = None, *, part: bool = False, expected: Collection[str] = ()) -> None:
        self._digests = Digests(key)
        self._part = part
        self._expected = set(expected)
        self._report = AuditReport()
        self._runs: dict[tuple[str, str], AuditRun] = {}
        self._ends: set[str] = set()
        """The hash of each run's last entry."""

    def check_line(self, line: bytes, where: str) -> None:
        """Check the next line. `where` is the line's name in the report. This method ignores a line of another log."""
        try:
            entry = read(line, self._digests.line)
        except NoEntry as reason:
            self._report.add(f"{where} {reason}")
            return
        if entry is not None:
            self._check(entry, where)

    def report(self) -> AuditReport:
        """Return the result, after all lines were passed to `take`."""
        for wanted in sorted(self._expected):
            self._report.add(f"no entry has the hash {wanted}: this entry or an earlier one was changed or removed")
        self._expected.clear()
        return self._report

    def _check(self, entry: AuditLine, where: str) -> None:
        run = self._runs.get((entry.replica, entry.run))
        if not entry.alone and not _is_next(entry, run):
            return  # text of a caller: a caller does not know the hash of the previous entry
        run = run or self._begin(entry, where)
        if run is None:
            return
        true = entry.true or not run.readable
        if not true:
            self._report.add(_changed(where))
        if entry.after and entry.after not in self._ends and not self._part:
            self._report.add(f"{where} refers to an earlier entry that was changed or removed")
        if self._follows(entry, run, where, true=true):
            self._ends.discard(run.hash)
            self._ends.add(entry.hash)
            if true:
                self._expected.discard(entry.hash)
            run.hash, run.seq, run.last, run.sure = entry.hash, entry.seq, entry.time, true
            run.ended = entry.event == "ended"
            run.lines += 1

    def _begin(self, entry: AuditLine, where: str) -> AuditRun | None:
        """Return a new run for its first entry, or None if the entry was changed and its run is unknown."""
        opens = entry.event in ("begun", "continued")
        readable = not opens or entry.keyed == self._digests.keyed
        if readable and not entry.true:
            self._report.add(_changed(where))
            return None
        if not readable:
            how = "with a key; pass the key to check it" if entry.keyed else "without a key, so anyone can forge it"
            self._report.add(f"{where} begins a run that was written {how}")
        if not opens and not self._part:
            self._report.add(
                f"{where} is the first entry of its run here: the entries before seq {entry.seq} are missing"
            )
        begins = entry.event if opens else ""
        run = AuditRun(entry.replica, entry.run, begins, entry.time, "", entry.prev, entry.seq - 1, readable)
        self._runs[entry.replica, entry.run] = run
        self._report.runs.append(run)
        return run

    def _follows(self, entry: AuditLine, run: AuditRun, where: str, *, true: bool) -> bool:
        """Return whether an entry is the next one of its run, and report what is wrong with its place."""
        due = run.seq + 1
        if entry.seq == due:
            if run.sure and entry.prev != run.hash:
                self._report.add(f"{where} does not follow the previous entry of its run: one of the two was replaced")
            return True
        if not true:
            return False  # the entry was changed, so its `seq` may be wrong
        if entry.seq > due:
            gap = range(due, entry.seq)
            run.missing.append(gap)
            if len(gap) == 1:
                self._report.add(f"the entry with seq {due} is missing before {where}, in the same run")
            else:
                self._report.add(
                    f"the entries with seq {due} to {entry.seq - 1} are missing before {where}, in the same run"
                )
            return True
        moved = any(entry.seq in gap for gap in run.missing)
        what = "is in the wrong place" if moved else "is a duplicate, or was inserted"
        self._report.add(f"{where} {what} (seq {entry.seq} of its run comes after seq {run.seq})")
        return False


def _is_next(entry: AuditLine, run: AuditRun | None) -> bool:
    return run is not None and (entry.true or not run.readable) and entry.seq == run.seq + 1 and entry.prev == run.hash


def _changed(where: str) -> str:
    return f"{where} was changed, or written with another key"
