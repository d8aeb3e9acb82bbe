"""What a check of an audit log found."""

from dataclasses import dataclass, field

MOST_PROBLEMS = 1000


@dataclass(slots=True)
class Run:
    """The lines of one process."""

    replica: str
    run: str
    begins: str
    """`begun`, `continued` (where an earlier file ends), or empty: somewhere in the middle."""
    first: str
    """Time of its first line, as it stands there."""
    last: str
    """Time of its last line."""
    hash: str
    """Of its last line."""
    seq: int
    """Of its last line."""
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
class Report:
    """All runs, and what is wrong with them."""

    runs: list[Run] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """A sentence each, the first `MOST_PROBLEMS` of them."""
    more: int = 0
    """How many problems more there are."""

    @property
    def lines(self) -> int:
        """How many lines of an audit log there were."""
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
