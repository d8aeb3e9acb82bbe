"""Tools that are made from tables, because they differ in a value or a type only."""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from fastmcp.dependencies import Depends
from fastmcp.tools import tool


def returning(results: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return a tool for each name. Its entry is its result and the declared type, or only the result."""

    def body(value: Any) -> Callable[..., Any]:
        async def returns():  # type: ignore[no-untyped-def]
            return copy.deepcopy(value)

        return returns

    return {name: _tool(name, body(value), *declared) for name, (value, *declared) in results.items()}


def giving(types: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return a tool for each name. It returns its argument. Its entry is the type of both, or empty."""

    def body() -> Callable[..., Any]:
        async def gives(value):  # type: ignore[no-untyped-def]
            return value

        return gives

    return {name: _tool(name, body(), *declared) for name, declared in types.items()}


def raising(errors: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return a tool for each name. Its entry is the class of its error and the arguments of the error."""

    def body(kind: type[BaseException], *arguments: Any) -> Callable[..., Any]:
        async def raises():  # type: ignore[no-untyped-def]
            raise kind(*arguments)

        return raises

    return {name: _tool(name, body(*error), str) for name, error in errors.items()}


def depending(dependencies: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return a tool for each name. It returns the value of its dependency."""

    def body(dependency: Any) -> Callable[..., Any]:
        async def depends(value: Any = dependency) -> str:
            return str(value)

        return depends

    return {name: _tool(name, body(Depends(dependency))) for name, dependency in dependencies.items()}


def _tool(name: str, function: Callable[..., Any], *declared: Any) -> Any:
    function.__name__ = name
    if declared:
        function.__annotations__ = dict.fromkeys([*inspect.signature(function).parameters, "return"], *declared)
    return tool(function)
