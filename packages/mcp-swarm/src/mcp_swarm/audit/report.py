"""What a check of an audit log found."""

from dataclasses import dataclass, field

MOST_PROBLEMS = 1000


@dataclass(slots=True)
class AuditRun:
    """The lines of one process, with the times of its `first` and `last`; `hash` and `seq` are the last line's."""

    replica: str
    run: str
    begins: str
    """`begun`, `continued` (where an earlier file ends), or empty: somewhere in the middle."""
    first: str
    last: str
    hash: str
    seq: int
    readable: bool
    """Whether its hashes were made with the key that is given or, if none is, without one."""
    lines: int = 0
    ended: bool = False
    """Whether its process stopped in order, so that nothing is missing at its end."""
    sure: bool = True
    """Whether the hash of its last line is the one that the line was written with."""
    missing: list[range] = field(default_factory=list)
    """Of `seq`."""


@dataclass(slots=True)
class AuditReport:
    """All runs, and what is wrong with them: the first `MOST_PROBLEMS` problems, and how many `more` there are."""

    runs: list[AuditRun] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    more: int = 0

    @property
    def lines(self) -> int:
        """How many there were of an audit log."""
        return sum(run.lines for run in self.runs)

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong, and there is a line at all: a log that was emptied isn't intact."""
        return bool(self.runs) and not self.problems

    def add(self, problem: str) -> None:
        """Tell of a problem."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)
        else:
            self.more += 1
