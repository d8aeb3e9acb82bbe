"""Whether two objects that FastMCP has made in the same way still do the same."""

import functools
import inspect
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType

_ABSENT = object()


def alike(one: object, other: object, assumed: Iterable[tuple[object, object]] = ()) -> bool:
    """Return whether two objects do the same, as far as their classes, their attributes and their code show it.

    Two objects without anything to compare, such as two locks, are alike if they have the same class.

    Args:
        assumed: pairs of objects that count as alike.
    """
    seen = {(id(a), id(b)): (a, b) for a, b in assumed}  # the objects stay alive, so that no other one gets their ids
    waiting = [(one, other)]
    while waiting:
        a, b = waiting.pop()
        if a is b or (id(a), id(b)) in seen:
            continue
        seen[id(a), id(b)] = a, b
        parts = _parts(a, b)
        if parts is None:
            return False
        waiting += parts
    return True


def _parts(a: object, b: object) -> list[tuple[object, object]] | None:
    """Return the pairs of parts that must be alike, or None if the two objects differ in any case."""
    if type(a) is not type(b) or isinstance(a, type):
        return None
    match a, b:
        case FunctionType(), FunctionType():
            if a.__code__ != b.__code__ or a.__globals__ is not b.__globals__:
                return None
            return [(_cells(a), _cells(b)), (a.__defaults__, b.__defaults__), (a.__kwdefaults__, b.__kwdefaults__)]
        case MethodType(), MethodType():
            return [(a.__func__, b.__func__), (a.__self__, b.__self__)]
        case functools.partial(), functools.partial():
            return [(a.func, b.func), (a.args, b.args), (a.keywords, b.keywords)]
        case (list() | tuple(), list() | tuple()):
            contents = list(zip(a, b, strict=True)) if len(a) == len(b) else None
        case dict(), dict():
            contents = [(a[key], b[key]) for key in a] if a.keys() == b.keys() else None
        case _:
            return _attributes(a, b)
    if contents is None:
        return None
    return [*contents, (dict(_state(a)), dict(_state(b)))] if hasattr(a, "__dict__") else contents


def _attributes(a: object, b: object) -> list[tuple[object, object]] | None:
    """Compare two objects of the same class by their attributes; if they have none, by their equality."""
    state, other = dict(_state(a)), dict(_state(b))
    # Some classes compare only a few attributes: two equal routes may have different apps.
    if state or other:
        is_value = isinstance(a, str | bytes | int | float | complex | set | frozenset)
        return None if is_value and a != b else [(state, other)]
    if type(a).__eq__ is object.__eq__:
        return []
    return [] if a == b else None


def _cells(function: FunctionType) -> list[object]:
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # the variable has no value yet
            found.append(_ABSENT)
    return found


def _state(thing: object) -> Iterator[tuple[str, object]]:
    """Yield the attributes of an object, also those in slots."""
    yield from getattr(thing, "__dict__", {}).items()
    for cls in type(thing).__mro__:
        for name, slot in vars(cls).items():
            if inspect.ismemberdescriptor(slot) and (value := getattr(thing, name, _ABSENT)) is not _ABSENT:
                yield name, value
