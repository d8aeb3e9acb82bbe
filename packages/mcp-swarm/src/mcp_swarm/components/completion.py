"""For tool authors: suggest values for the arguments of prompts and resource templates.

    from mcp_swarm.components.completion import completion

    @completion
    async def suggest(ref, argument, context) -> list[str]:
        return ["paris", "parma"] if argument.name == "city" else []

One such function serves all of them: `ref` says which prompt or template, `argument` its name and what was typed.
"""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__completion__"


def completion(fn: F) -> F:
    """Mark a function as the one that completes arguments."""
    setattr(fn, _MARK, True)
    return fn


def is_completion(value: object) -> bool:
    """Whether `@completion` marks it."""
    return callable(value) and getattr(value, _MARK, False) is True
