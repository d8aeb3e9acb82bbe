"""Components that may ask the client in the middle of a call."""

import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

from fastmcp.prompts.function_prompt import FunctionPrompt
from fastmcp.resources import FunctionResource
from fastmcp.resources.template import FunctionResourceTemplate
from fastmcp.tools import FunctionTool
from fastmcp.utilities.components import FastMCPComponent
from mcp_types import InputRequiredResult

_ASKING = frozenset({"elicit", "elicit_form", "elicit_url", "create_message", "list_roots", "InputRequiredResult"})
"""Names in the code of a function that asks: methods of FastMCP's Context and of `ctx.session`, and the result of a
multi-round component."""


def may_ask(component: FastMCPComponent) -> bool:
    """Return whether a component's own function names one of the ways to ask the client.

    A function that asks only through another function is not found.
    """
    if isinstance(component, FunctionTool | FunctionPrompt | FunctionResource | FunctionResourceTemplate):
        return asks(component.fn)
    return False


def has_rounds(component: FunctionTool) -> bool:
    """Return whether a tool's function names the result of a multi-round component, in its code or its return type."""
    name = InputRequiredResult.__name__
    return _has_name(component.fn, frozenset({name})) or name in str(inspect.signature(component.fn).return_annotation)


def asks(fn: Callable[..., Any]) -> bool:
    """Return whether a function names one of the ways to ask the client."""
    return _has_name(fn, _ASKING)


def changes_visibility(component: FunctionTool) -> bool:
    """Return whether a tool's function shows or hides components for its session."""
    return _has_name(component.fn, frozenset({"enable_components", "disable_components", "reset_visibility"}))


def finds_context(component: FunctionTool) -> bool:
    """Return whether a tool's function gets its Context from FastMCP's `get_context`, and not from a parameter."""
    return _has_name(component.fn, frozenset({"get_context"}))


def _has_name(fn: Callable[..., Any], names: frozenset[str]) -> bool:
    """Return whether the code of a function, or of a function inside it, uses one of these names."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    waiting = [code] if isinstance(code, CodeType) else []
    while waiting:
        each = waiting.pop()
        if not names.isdisjoint(each.co_names):
            return True
        waiting += [constant for constant in each.co_consts if isinstance(constant, CodeType)]
    return False
