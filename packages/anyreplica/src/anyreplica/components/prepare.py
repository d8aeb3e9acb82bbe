"""The preparation of components: wrappers around their functions check results and limit threads.

Components come from two places: discovery makes them from the functions of packs, and the author of a FastMCP server
adds them to the server, possibly while it runs. Both get the same preparation.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from fastmcp.prompts.function_prompt import FunctionPrompt
from fastmcp.resources import FunctionResource
from fastmcp.resources.template import FunctionResourceTemplate
from fastmcp.server.dependencies import without_injected_parameters
from fastmcp.tools import FunctionTool
from fastmcp.utilities.components import FastMCPComponent
from pydantic import validate_call

from anyreplica.components.containment import (
    AsyncFunction,
    MakeThreads,
    as_async,
    checked,
    contain,
    mask_prompt_errors,
    result_check,
)
from anyreplica.components.outcome import PlannedTool, TypedTemplate, tell_not_found
from anyreplica.settings import CoreSettings

WrapTool = Callable[[FunctionTool, AsyncFunction], AsyncFunction]
"""Returns the function that runs when a tool is called."""

_PREPARED = "__anyreplica_prepared__"
"""Name of an attribute. A function that has it is already prepared, and must not be wrapped again."""
_INJECTING = f"{without_injected_parameters.__name__}.<locals>.wrapper"
"""Qualified name of FastMCP's wrapper around a function with parameters for Context or dependencies."""


class Preparation:
    """The preparation of all components of a server.

    Args:
        make_threads: makes the threads of one plain `def` function.
        wraps: functions that get a tool and its function, and return the function that runs instead.
    """

    def __init__(self, settings: CoreSettings, make_threads: MakeThreads, wraps: Sequence[WrapTool] = ()) -> None:
        self._make_threads = partial(make_threads, settings.tool_threads)
        self._wraps = wraps

    def prepare(self, component: FastMCPComponent) -> FastMCPComponent:
        """Return the component with a prepared function.

        A component without a function of its own, such as a tool of another server, and a component that is prepared
        already are returned unchanged.

        Raises:
            ValueError: a feature cannot wrap the tool.
        """
        match component:
            case PlannedTool():  # of this package, or prepared already
                return component
            case FunctionTool():
                return component if hasattr(component.fn, _PREPARED) else self._tool(component)
            case FunctionResource() | FunctionResourceTemplate() | FunctionPrompt():
                fn = _author_function(component.fn)
                if hasattr(fn, _PREPARED):
                    return component
        match component:
            case FunctionResource():
                return component.model_copy(update={"fn": self._resource(component, fn)})
            case FunctionResourceTemplate():
                validating = validate_call(self._resource(component, fn))
                return TypedTemplate.of(component.model_copy(update={"fn": validating}))
            case FunctionPrompt():
                return component.model_copy(update={"fn": self._prompt(component, fn)})
            case _:
                return component

    def _tool(self, tool: FunctionTool) -> FunctionTool:
        threads = self._make_threads() if tool.run_in_thread else None
        run, check = as_async(tool.fn, threads), result_check("tool", f"tool {tool.name!r}")
        contained = wrapped = checked(run, check)
        for wrap in self._wraps:
            wrapped = wrap(tool, wrapped)
        if type(tool) is not FunctionTool:
            return tool.model_copy(update={"fn": _marked(wrapped)})  # its own class may run it in another way
        # A dependency is closed when the function has ended, so a result such as a generator is completed before that.
        injects = without_injected_parameters(tool.fn, run_in_thread=tool.run_in_thread) is not tool.fn
        unchecked = None if injects or wrapped is not contained else (run, check)
        return PlannedTool.of(tool, _marked(wrapped), unchecked)

    def _resource(self, component: FastMCPComponent, fn: Callable[..., Any]) -> Callable[..., Any]:
        what = f"resource {component.name!r}"
        contained = contain(fn, threads=self._make_threads(), kind="resource", what=what)
        return without_injected_parameters(_marked(tell_not_found(contained)))

    def _prompt(self, prompt: FunctionPrompt, fn: Callable[..., Any]) -> Callable[..., Any]:
        what = f"prompt {prompt.name!r}"
        contained = contain(fn, threads=self._make_threads(), kind="prompt", what=what)
        return without_injected_parameters(_marked(mask_prompt_errors(contained, what=what)))


def _author_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the author's function beneath pydantic's and FastMCP's wrappers.

    FastMCP wraps the function of a resource or prompt: `validate_call` of pydantic for templates, and
    `without_injected_parameters` for a function with parameters for Context or dependencies.
    """
    fn = getattr(fn, "raw_function", fn)  # of `validate_call`
    code = getattr(fn, "__code__", None)
    if code is not None and code.co_qualname == _INJECTING:
        return cast("Callable[..., Any]", inspect.getclosurevars(fn).nonlocals["fn"])
    return fn


def _marked(fn: AsyncFunction) -> AsyncFunction:
    setattr(fn, _PREPARED, True)
    return fn
