"""The result of a check of an audit log."""

from dataclasses import dataclass, field

MOST_PROBLEMS = 1000
"""Maximum number of problems that a report lists."""


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
