"""The measured samples, one per request, in columns: 1 million samples take 40 MB and merge quickly."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurement of one request."""

    begun: float
    """Time when the request was sent, or its scheduled time if it was sent late; seconds since the start of the run."""
    ended: float
    """Time when the response was complete or the request failed; seconds since the start of the run."""
    kind: str
    """Kind of failure; empty for a success."""
    replica: str
    """Name of the replica that answered (`X-Served-By`); empty if none did."""
    name: str
    """Name of the request in the report."""
    connection: int
    """Id of the connection, from 1; 0 if there was no connection."""

    @property
    def seconds(self) -> float:
        """Duration of the request in seconds."""
        return self.ended - self.begun


class NumberedWords:
    """A list of distinct words; each word has a number."""

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        self.words = list(words)
        self._numbers = {word: number for number, word in enumerate(words)}

    def number(self, word: str) -> int:
        """Return the number of a word; a new word gets the next number."""
        number = self._numbers.get(word)
        if number is None:
            number = self._numbers[word] = len(self.words)
            self.words.append(word)
        return number


@dataclass
class Samples:
    """The samples of a run, in the order in which the requests ended."""

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
    """One example of each kind of failure: the beginning of the response, or the text of an error if no response came.

    The example is empty if there is neither.
    """

    def add(self, begun: float, ended: float, kind: str, replica: str, name: str, connection: int) -> None:
        """Add a sample."""
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
    """Merge the samples of several processes; each connection gets a number that no other connection has."""
    whole = Samples()
    everything = [(each, offset) for offset, part in enumerate(parts) for each in part]
    for each, offset in sorted(everything, key=lambda pair: pair[0].ended):
        number = each.connection * len(parts) + offset if each.connection else 0
        whole.add(each.begun, each.ended, each.kind, each.replica, each.name, number)
    for part in reversed(parts):
        whole.examples.update(part.examples)
    return whole
