"""Whether the lines of an audit log are all there, as they were written, in their order.

What can't be seen: that the last lines of a run are missing, if it has no line `ended` and no other run begins after
it in the file. Therefore a hash can be expected: one that was recorded elsewhere must still be there, and with it all
lines before it. And without a key, who can write the file can write a whole new chain.
"""

from collections.abc import Collection

from mcp_swarm.audit.chain import Digests
from mcp_swarm.audit.entry import AuditLine, NoEntry, read
from mcp_swarm.audit.report import AuditReport, AuditRun


class Verifier:
    """Checks line by line: of a file, or of several, the oldest first, or of what services wrote to stdout.

    `key` is the one that they were written with. In a `part` of a longer log, runs may begin in the middle. `expected`
    are hashes of lines that must be there.

    Raises:
        ValueError: the key is too short to be one.
    """

    def __init__(self, key: bytes | None = None, *, part: bool = False, expected: Collection[str] = ()) -> None:
        self._digests = Digests(key)
        self._part = part
        self._expected = set(expected)
        self._report = AuditReport()
        self._runs: dict[tuple[str, str], AuditRun] = {}
        self._ends: set[str] = set()
        """The hash of each run's last line."""

    def take(self, line: bytes, where: str) -> None:
        """Look at the next line, which the report calls `where`; one of some other log is passed over."""
        try:
            entry = read(line, self._digests.line)
        except NoEntry as reason:
            self._report.add(f"{where} {reason}")
            return
        if entry is not None:
            self._check(entry, where)

    def report(self) -> AuditReport:
        """What was found, when all lines are taken."""
        for wanted in sorted(self._expected):
            self._report.add(f"no line has the hash {wanted}: it, or something before it, was changed or removed")
        self._expected.clear()
        return self._report

    def _check(self, entry: AuditLine, where: str) -> None:
        run = self._runs.get((entry.replica, entry.run))
        if not entry.alone and not _is_next(entry, run):
            return  # a caller's text, which can't hold the hash of the line before it
        run = run or self._begin(entry, where)
        if run is None:
            return
        true = entry.true or not run.readable
        if not true:
            self._report.add(_changed(where))
        if entry.after and entry.after not in self._ends and not self._part:
            self._report.add(f"{where} says that it comes after a line which isn't there any more as it was")
        if self._follows(entry, run, where, true=true):
            self._ends.discard(run.hash)
            self._ends.add(entry.hash)
            if true:
                self._expected.discard(entry.hash)
            run.hash, run.seq, run.last, run.sure = entry.hash, entry.seq, entry.time, true
            run.ended = entry.event == "ended"
            run.lines += 1

    def _begin(self, entry: AuditLine, where: str) -> AuditRun | None:
        """The run of a line that is the first of it; None if it can't be told whose it is."""
        opens = entry.event in ("begun", "continued")
        readable = not opens or entry.keyed == self._digests.keyed
        if readable and not entry.true:
            self._report.add(_changed(where))
            return None
        if not readable:
            how = "with a key, and can't be checked without it" if entry.keyed else "without a key, so by anybody"
            self._report.add(f"{where} begins a run that was written {how}")
        if not opens and not self._part:
            self._report.add(
                f"{where} is the first of its run: what comes before it (up to seq {entry.seq}) is missing"
            )
        begins = entry.event if opens else ""
        run = AuditRun(entry.replica, entry.run, begins, entry.time, "", entry.prev, entry.seq - 1, readable)
        self._runs[entry.replica, entry.run] = run
        self._report.runs.append(run)
        return run

    def _follows(self, entry: AuditLine, run: AuditRun, where: str, *, true: bool) -> bool:
        """Whether a line counts as its run's next; tells what is wrong with its place."""
        due = run.seq + 1
        if entry.seq == due:
            if run.sure and entry.prev != run.hash:
                self._report.add(f"{where} doesn't follow the line before it of its run: one of the two was replaced")
            return True
        if not true:
            return False  # its place may have been changed
        if entry.seq > due:
            gap = range(due, entry.seq)
            run.missing.append(gap)
            if len(gap) == 1:
                self._report.add(f"before {where} a line is missing (seq {due} of its run)")
            else:
                self._report.add(f"before {where} lines are missing (seq {due} to {entry.seq - 1} of its run)")
            return True
        moved = any(entry.seq in gap for gap in run.missing)
        what = "stands in the wrong place" if moved else "stands there twice, or was put in"
        self._report.add(f"{where} {what} (seq {entry.seq} of its run comes after seq {run.seq})")
        return False


def _is_next(entry: AuditLine, run: AuditRun | None) -> bool:
    return run is not None and (entry.true or not run.readable) and entry.seq == run.seq + 1 and entry.prev == run.hash


def _changed(where: str) -> str:
    return f"{where} was changed, or written with another key"
