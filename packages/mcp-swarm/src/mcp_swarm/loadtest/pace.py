"""When requests are sent: as soon as a caller is free (closed loop), or by a schedule (open loop)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Ramp:
    """A rate that grows or falls steadily, then stays; a constant one if both are equal."""

    first: float
    """Requests per second at the start."""
    last: float
    """Requests per second from `seconds` on."""
    seconds: float

    def rate(self, at: float) -> float:
        """Requests per second at a time since the start."""
        if at >= self.seconds:
            return self.last
        return self.first + (self.last - self.first) * at / self.seconds

    def sent(self, until: float) -> float:
        """How many requests are due until a time since the start."""
        ramped = min(until, self.seconds)
        within = self.first * ramped + (self.rate(ramped) - self.first) * ramped / 2
        return within + self.last * max(0.0, until - self.seconds)

    def schedule(self) -> Iterator[float]:
        """The times of the requests: the first one at once, the next whenever another one is due; for ever."""
        slope = (self.last - self.first) / self.seconds if self.seconds else 0.0
        ramped = self.sent(self.seconds)
        number = 0
        while True:
            if number < ramped:
                yield _reached(number, self.first, slope)
            elif self.last > 0:
                yield self.seconds + (number - ramped) / self.last
            else:
                return
            number += 1


def _reached(number: float, rate: float, slope: float) -> float:
    """When so many are due at a rate that changes by `slope` each second: rate·t + slope·t²/2 = number.

    By the form of the quadratic formula that stays exact when the slope is next to nothing.
    """
    root = math.sqrt(max(0.0, rate * rate + 2 * slope * number))
    return 2 * number / (rate + root) if number else 0.0


def constant(rate: float) -> Ramp:
    """Always the same rate."""
    return Ramp(rate, rate, 0.0)
