"""The schedule of an open loop, which sends requests at a given rate.

A closed loop has no schedule: each client sends its next request as soon as it has the reply to the last one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Ramp:
    """A rate that changes steadily from `first` to `last`, then stays; constant if both are equal."""

    first: float
    """Requests per second at the start."""
    last: float
    """Requests per second from `seconds` on."""
    seconds: float
    """Length of the change, in seconds."""

    def rate(self, at: float) -> float:
        """Return the requests per second at a time, in seconds since the start."""
        if at >= self.seconds:
            return self.last
        return self.first + (self.last - self.first) * at / self.seconds

    def sent(self, until: float) -> float:
        """Return how many requests are due until a time, in seconds since the start."""
        ramped = min(until, self.seconds)
        within = self.first * ramped + (self.rate(ramped) - self.first) * ramped / 2
        return within + self.last * max(0.0, until - self.seconds)

    def schedule(self) -> Iterator[float]:
        """Yield the scheduled times of the requests, in seconds since the start; the first is 0.

        The iterator is endless, except if the rate falls to 0.
        """
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
    """Return the time t when `number` requests are due: rate·t + slope·t²/2 = number.

    The rate changes by `slope` each second. The function uses the form of the quadratic formula that stays exact when
    the slope is close to 0.
    """
    root = math.sqrt(max(0.0, rate * rate + 2 * slope * number))
    return 2 * number / (rate + root) if number else 0.0


def constant(rate: float) -> Ramp:
    """Return a ramp with a constant rate."""
    return Ramp(rate, rate, 0.0)
