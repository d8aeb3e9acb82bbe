"""The check that an audit log has all its entries, unchanged and in their order.

The check has two limits. First, somebody may have removed the last entries of a run. The check cannot detect this if
the run has no entry `ended` and no other run begins later in the file. To detect this, record a hash at another place
and pass it as an expected hash. If the entry with this hash exists, all earlier entries exist, too. Second, without a
key, a person who can write the file can write a complete new chain.
"""

from collections.abc import Collection

from anyreplica.features.audit.chain import Digests
from anyreplica.features.audit.entry import AuditLine, NoEntry, read
from anyreplica.features.audit.report import AuditReport, AuditRun


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

    def take(self, line: bytes, where: str) -> None:
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
