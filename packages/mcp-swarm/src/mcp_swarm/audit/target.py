"""What lines are written to."""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

Make = Callable[[str | None], Sequence[bytes]]
"""Makes the lines to write. It is given None or, if nothing was written yet to what the target is now, the hash of the
last line in it, empty if there is none."""


class Written(NamedTuple):
    """What became of lines."""

    lines: int
    """How many are there, whole; the first ones."""
    error: OSError | None
    """Why the others aren't."""


class Target(Protocol):
    """A file, or stdout."""

    name: str
    """For messages."""

    def open(self) -> None:
        """See whether it can be written to at all.

        Raises:
            OSError: it can't.
        """

    def append(self, make: Make) -> Written:
        """Write lines; those that aren't written may be given again."""
        ...

    def close(self) -> None:
        """Let go of it."""


def write_all(file: int, data: bytes) -> tuple[int, OSError | None]:
    """Write all that can be written; returns how many bytes were, and why not all."""
    written = 0
    try:
        while written < len(data):
            written += os.write(file, data[written:] if written else data)
    except OSError as error:
        return written, error
    return written, None
