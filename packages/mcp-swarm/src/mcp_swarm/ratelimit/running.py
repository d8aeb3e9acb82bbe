"""How many calls of each caller run in this replica."""


class Running:
    """Counts them."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """By caller; none that is 0."""

    def enter(self, name: str) -> None:
        """Count one more."""
        self.counts[name] = self.counts.get(name, 0) + 1

    def leave(self, name: str) -> None:
        """Count one less."""
        left = self.counts[name] - 1
        if left:
            self.counts[name] = left
        else:
            del self.counts[name]
