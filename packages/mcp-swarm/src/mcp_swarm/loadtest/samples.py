"""What was measured, one entry for each request, in columns: a million of them take 40 MB and merge in no time."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """One request."""

    begun: float
    """Seconds since the run's start at which it was sent, or was to be sent by the schedule."""
    ended: float
    """Seconds since the run's start at which its response was whole, or it had failed."""
    kind: str
    """Of the failure; empty for a success."""
    replica: str
    """Which replica answered, by `X-Served-By`; empty if none did."""
    name: str
    """What was asked for."""
    connection: int
    """The number of its connection, 0 if there was none."""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.begun


class NumberedWords:
    """Words by number, as far as they have occurred."""

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        self.words = list(words)
        self._numbers = {word: number for number, word in enumerate(words)}

    def number(self, word: str) -> int:
        """The number of a word; a new word gets the next."""
        number = self._numbers.get(word)
        if number is None:
            number = self._numbers[word] = len(self.words)
            self.words.append(word)
        return number


@dataclass
class Samples:
    """All requests of a run, in the order of their ends."""

    begun: "array[float]" = field(default_factory=lambda: array("d"))
    ended: "array[float]" = field(default_factory=lambda: array("d"))
    kind: "array[int]" = field(default_factory=lambda: array("H"))
    replica: "array[int]" = field(default_factory=lambda: array("H"))
    name: "array[int]" = field(default_factory=lambda: array("H"))
    connection: "array[int]" = field(default_factory=lambda: array("L"))
    kinds: NumberedWords = field(default_factory=lambda: NumberedWords(("",)))
    replicas: NumberedWords = field(default_factory=lambda: NumberedWords(("",)))
    names: NumberedWords = field(default_factory=NumberedWords)
    examples: dict[str, str] = field(default_factory=dict)
    """One example of each kind of failure: what came, in short."""

    def add(self, begun: float, ended: float, kind: str, replica: str, name: str, connection: int) -> None:
        """Take one more."""
        self.begun.append(begun)
        self.ended.append(ended)
        self.kind.append(self.kinds.number(kind))
        self.replica.append(self.replicas.number(replica))
        self.name.append(self.names.number(name))
        self.connection.append(connection)

    def __len__(self) -> int:
        return len(self.ended)

    def __iter__(self) -> Iterator[Sample]:
        kinds, replicas, names = self.kinds.words, self.replicas.words, self.names.words
        columns = zip(self.begun, self.ended, self.kind, self.replica, self.name, self.connection, strict=True)
        for begun, ended, kind, replica, name, connection in columns:
            yield Sample(begun, ended, kinds[kind], replicas[replica], names[name], connection)


def merged(parts: list[Samples]) -> Samples:
    """What several generators measured at the same time, as if one had; each connection keeps a number of its own."""
    whole = Samples()
    everything = [(each, offset) for offset, part in enumerate(parts) for each in part]
    for each, offset in sorted(everything, key=lambda pair: pair[0].ended):
        number = each.connection * len(parts) + offset if each.connection else 0
        whole.add(each.begun, each.ended, each.kind, each.replica, each.name, number)
    for part in reversed(parts):
        whole.examples.update(part.examples)
    return whole
