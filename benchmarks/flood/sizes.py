"""How much of everything."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Of one run; times in seconds."""

    before: float
    """The good client alone."""
    flood: float
    after: float
    """The good client alone again."""
    window: float
    """Between two looks at the server."""
    most: int
    """Sessions, or connections, where they are bounded."""
    idle: float
    """After which a session is closed, where they are bounded."""
    requests: int
    """Of the long run."""
    turn: float
    """Of the long run, between two looks at what it is compared with."""


FULL = Sizes(before=4, flood=20, after=7, window=1, most=1_000, idle=5, requests=1_000_000, turn=5)
SHORT = Sizes(before=0.5, flood=1.5, after=1.3, window=0.25, most=100, idle=1, requests=8_000, turn=0.08)
