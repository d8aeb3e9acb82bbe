"""For tool authors: suggest values for the arguments of prompts and resource templates."""

from collections.abc import Callable
from typing import Any, TypeVar

from mcp_swarm.components.marks import MARK

F = TypeVar("F", bound=Callable[..., Any])


def completion(fn: F) -> F:
    """Mark a function that suggests values for the arguments of prompts and resource templates.

    A server has at most one. It takes `ref` (the prompt or template), `argument` (its name and what was typed) and
    `context` (the arguments that have values already).

    Example:

        from mcp_types import CompletionArgument

        from mcp_swarm import completion

        @completion
        async def suggest(ref: object, argument: CompletionArgument, context: object) -> list[str]:
            return ["paris", "parma"] if argument.name == "city" else []
    """
    setattr(fn, MARK, "completion")
    return fn
