"""The loads of the simulation: one number per second, in multiples of what one replica serves well."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


@dataclass(frozen=True)
class Curve:
    """A course of load. `seconds` is its length, and `at` the load of each second before the noise."""

    name: str
    title: str
    seconds: int
    at: Callable[[int], float]
    noise: float
    """Standard deviation of the noise, as a share of the load. After a minute, little of it is left."""

    def loads(self, seed: int) -> list[float]:
        """Return the load of each second. The same seed gives the same noise."""
        return [max(0.0, self.at(second) * (1 + noise)) for second, noise in enumerate(self._noises(seed))]

    def _noises(self, seed: int) -> Iterator[float]:
        """Return noise that forgets its past within a minute (an Ornstein-Uhlenbeck process)."""
        dice, value = random.Random(seed), 0.0  # noqa: S311  # not a secret
        step = self.noise * math.sqrt(2 / _MINUTE)
        for _ in range(self.seconds):
            yield value
            value += dice.gauss(0, step) - value / _MINUTE


def _day(second: int) -> float:
    return 18 - 12 * math.cos(2 * math.pi * second / _DAY)


def _step(second: int) -> float:
    return 15.0 if 10 * _MINUTE <= second < 40 * _MINUTE else 5.0


def _spike(second: int) -> float:
    return 20.0 if 10 * _MINUTE <= second < 11 * _MINUTE else 5.0


def _sawtooth(second: int) -> float:
    return 3 + 12 * (second % (20 * _MINUTE)) / (20 * _MINUTE)


CURVES = (
    Curve("day", "A day: 6 to 30 replicas' load", _DAY, _day, 0.02),
    Curve("step", "A step from 5 to 15 replicas' load, and back", _HOUR, _step, 0.02),
    Curve("spike", "A spike of one minute from 5 to 20 replicas' load", _HOUR, _spike, 0.02),
    Curve("sawtooth", "A sawtooth of 20 minutes from 3 to 15 replicas' load", _HOUR, _sawtooth, 0.02),
    Curve("noise", "10 replicas' load with strong noise", _HOUR, lambda _: 10.0, 0.2),
)
