"""The decorator `@completion`: a function that suggests values for arguments of prompts and resource templates."""

from collections.abc import Callable
from typing import Any, TypeVar

from anyreplica.components.importing import MARK

F = TypeVar("F", bound=Callable[..., Any])


def completion(fn: F) -> F:
    """Mark a function that suggests values for the arguments of prompts and resource templates.

    A server has at most one such function. The server calls the function with three arguments:

    - `ref`: the prompt or the resource template.
    - `argument`: the argument's name, and the text that the user has typed so far.
    - `context`: the arguments that already have values.

    Example:

        from mcp_types import CompletionArgument

        from anyreplica import completion

        @completion
        async def suggest(ref: object, argument: CompletionArgument, context: object) -> list[str]:
            return ["paris", "parma"] if argument.name == "city" else []
    """
    setattr(fn, MARK, "completion")
    return fn
