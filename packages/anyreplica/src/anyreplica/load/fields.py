"""Placeholders in a request's arguments that get a different value in each call."""

import random
import re
import uuid
from collections.abc import Callable
from typing import Any

_FIELD = re.compile(r"\{(i|uuid|random|choice)(?::([^{}]*))?\}")
_RANGE = re.compile(r"(-?\d+)-(-?\d+)")

Maker = Callable[[int], Any]
"""A function that takes the number of a call and returns the value for that call."""

FIELDS_HELP = """\
  {i}             number of the request
  {random:1-100}  random whole number from 1 to 100
  {choice:a|b|c}  one of the values a, b, c
  {uuid}          random UUID"""


def maker(value: Any) -> Maker | None:
    """Return a function that fills the placeholders in a JSON value; None if the value has no placeholder.

    A string that consists of one numeric placeholder becomes a number: `"{i}"` gives 17. `"call {i}"` gives a string.

    Raises:
        ValueError: A placeholder is invalid.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        made = {key: maker(part) for key, part in value.items()}
        if not any(made.values()):
            return None
        return lambda number: {key: (make(number) if (make := made[key]) else part) for key, part in value.items()}
    if isinstance(value, list):
        items = [(maker(part), part) for part in value]
        if not any(make for make, _ in items):
            return None
        return lambda number: [make(number) if make else part for make, part in items]
    return None


def _text(text: str) -> Maker | None:
    found = list(_FIELD.finditer(text))
    if not found:
        return None
    makers = [_field(match[1], match[2] or "") for match in found]
    if found[0].span() == (0, len(text)):
        return makers[0]
    between = _FIELD.split(text)[::3]

    def make(number: int) -> str:
        filled = [part for pair in zip(between, (str(one(number)) for one in makers), strict=False) for part in pair]
        return "".join([*filled, between[-1]])

    return make


def _field(kind: str, argument: str) -> Maker:
    if kind == "i":
        return lambda number: number
    if kind == "uuid":
        return lambda _: str(uuid.uuid4())
    if kind == "choice":
        choices = argument.split("|")
        return lambda _: random.choice(choices)
    bounds = _RANGE.fullmatch(argument or "0-999999")
    if bounds is None or int(bounds[1]) > int(bounds[2]):
        raise ValueError(f"{{random:{argument}}} needs two whole numbers, the smaller number first: {{random:1-100}}")
    low, high = int(bounds[1]), int(bounds[2])
    return lambda _: random.randint(low, high)
