"""Functions in every form that FastMCP accepts: plain functions, bound methods, callable objects and partials."""

import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar

from fastmcp.utilities.types import get_function_type_hints

F = TypeVar("F", bound=Callable[..., Any])


def plain_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the plain function that runs when `fn` is called: of a method, a callable object or a partial."""
    while not inspect.isfunction(fn):
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, MethodType | staticmethod):
            fn = fn.__func__
        elif inspect.isroutine(fn):  # written in C
            break
        else:
            fn = type(fn).__call__
    return fn


def wraps(fn: Callable[..., Any]) -> Callable[[F], F]:
    """Decorate a plain function so that it has the name, signature and annotations of `fn`.

    `functools.wraps` is right for plain functions only. The wrapper of a bound method would get the parameter `self`,
    and the wrapper of a partial would get no annotations.
    """
    author_function = plain_function(fn)

    def decorate(wrapper: F) -> F:
        functools.update_wrapper(wrapper, author_function)
        if author_function is not fn:
            signature = inspect.signature(fn)
            hints = _hints(author_function)
            annotations = {each.name: each.annotation for each in signature.parameters.values()}
            annotations["return"] = signature.return_annotation
            wrapper.__annotations__ = {
                name: hints.get(name, each) for name, each in annotations.items() if each is not signature.empty
            }
            wrapper.__signature__ = signature  # type: ignore[attr-defined]
        return wrapper

    return decorate


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_function_type_hints(fn)
    except Exception:  # noqa: BLE001  # a name in an annotation is unknown; FastMCP then uses the text as well
        return {}
