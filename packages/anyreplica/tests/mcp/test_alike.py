"""The comparison of two objects that are made in the same way."""

import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from starlette.routing import Route

from anyreplica.mcp.compat.alike import alike


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def method(self) -> object:
        return self.value


def closure(value: object) -> Callable[[], object]:
    """Return a function that has a value."""
    return lambda: value


def with_default(value: object) -> Callable[..., object]:
    """Return a function whose default is a value."""

    def function(given: object = value) -> object:
        return given

    return function


def route(value: object) -> Route:
    """Return a route with an app of its own. For Starlette, all of these routes are equal."""
    made = Route("/", endpoint=with_default)
    made.app = closure(value)  # type: ignore[assignment]
    return made


def loop(value: object) -> list[Any]:
    """Return a list that contains itself."""
    made: list[Any] = [value]
    made.append(made)
    return made


@pytest.mark.parametrize(
    "made",
    [
        Slotted,
        closure,
        with_default,
        route,
        loop,
        lambda value: Slotted(value).method,
        lambda value: partial(closure, value),
        lambda value: {"key": (value, [threading.Lock()])},
        lambda value: re.compile(str(value)),
        lambda value: {value},
    ],
)
def test_alike(made: Callable[[object], object]) -> None:
    """Two objects with the same values are alike, and two with different values are not."""
    assert alike(made(1), made(1))
    assert not alike(made(1), made(2))


def test_other_kinds_differ() -> None:
    """Objects of different classes, different code and different sizes are not alike, unless a pair is assumed."""
    one, other = Slotted(1), Slotted(2)
    assert alike([one], [other], [(one, other)])
    assert not alike(True, 1)
    assert not alike([1], [1, 2])
    assert not alike({"a": 1}, {"b": 1})
    assert not alike(closure, with_default)
    assert not alike(Slotted, Route)
