"""The planner: it decides the path of each tool at the start and after each change of the components."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from fastmcp.telemetry import telemetry_mode
from fastmcp.tools import FunctionTool, Tool
from mcp.shared.inbound import x_mcp_header_map

from mcp_swarm.auth.visibility import Visibility
from mcp_swarm.components.asking import changes_visibility
from mcp_swarm.components.call_limits import CallLimits
from mcp_swarm.components.outcome import PlannedTool
from mcp_swarm.mcp import _sdk
from mcp_swarm.mcp.plan import Plan, Templates
from mcp_swarm.mcp.rounds import Rounds

_EVERYWHERE = (Rounds, CallLimits, Visibility, DereferenceRefsMiddleware)
"""Middleware classes that do not prevent call plans and cached lists.

Either the fast path applies the rule of the middleware itself, or it hands such calls over to the FastMCP path, or the
middleware changes lists in the same way for all callers.
"""
_HOOKS = ("__call__", "on_message", "on_request")
_CALL_HOOKS = (*_HOOKS, "on_call_tool")
_LIST_HOOKS = (
    *_HOOKS,
    "on_discover",
    "on_list_tools",
    "on_list_resources",
    "on_list_resource_templates",
    "on_list_prompts",
)


@dataclass
class Plans:
    """The paths of all tools.

    Attributes:
        tools: call plans, by tool name.
        fastmcp: the reasons why the other tools take the FastMCP path, by tool name.
        annotated: input schemas that repeat an argument in a header (`x-mcp-header`), by tool name.
        cacheable: whether all callers that may use the same tools get the same lists, until components change.
    """

    tools: dict[str, Plan] = field(default_factory=dict)
    fastmcp: dict[str, str] = field(default_factory=dict)
    annotated: dict[str, Any] = field(default_factory=dict)
    cacheable: bool = False

    @property
    def paths(self) -> dict[str, str]:
        """The path of each tool. A path other than the plain fast path includes its reason or condition."""
        fast = {name: _describe(plan) for name, plan in self.tools.items()}
        fastmcp = {name: f"fastmcp: {reason}" for name, reason in self.fastmcp.items()}
        return dict(sorted({**fast, **fastmcp}.items()))


async def plan(mcp: FastMCP, seconds: float, timeouts: Mapping[str, float], *, keeps_state: bool) -> Plans:
    """Make a call plan for every tool that can have one.

    Args:
        seconds: time limit of a call.
        timeouts: time limits of tools with a timeout of their own, in seconds, by tool name.
        keeps_state: whether the server keeps the state of sessions.
    """
    tools = await mcp.list_tools(run_middleware=False)
    names = Counter(tool.name for tool in tools)
    registered = [each for each in mcp.middleware if not isinstance(each, _EVERYWHERE)]
    around = tuple(each for each in registered if _overrides(each, _CALL_HOOKS))
    everywhere = _sdk.why_unplannable(mcp)
    if not everywhere and keeps_state and any(isinstance(t, FunctionTool) and changes_visibility(t) for t in tools):
        everywhere = "a tool shows or hides components for its session"
    if not everywhere and telemetry_mode() == "propagation_only":
        everywhere = "trace contexts are propagated without spans"  # only the FastMCP path does this
    plans, templates = Plans(), Templates(mcp)
    for tool in tools:
        if x_mcp_header_map(tool.parameters):
            plans.annotated[tool.name] = tool.parameters
        reason = everywhere or _why_fastmcp(tool, names)
        if reason or not isinstance(tool, PlannedTool):
            plans.fastmcp[tool.name] = reason
        else:
            plans.tools[tool.name] = Plan(tool, timeouts.get(tool.name, seconds), around, templates)
    own = mcp.local_provider  # a list of the server would not contain a component that its `auth` hides
    components: list[Tool | Prompt | Resource | ResourceTemplate] = [
        *await own.list_tools(),
        *await own.list_prompts(),
        *await own.list_resources(),
        *await own.list_resource_templates(),
    ]
    plans.cacheable = (
        not everywhere
        and not any(_overrides(each, _LIST_HOOKS) for each in registered)
        and all(component.auth is None for component in components)
    )
    return plans


def _overrides(middleware: Middleware, hooks: tuple[str, ...]) -> bool:
    return any(getattr(type(middleware), hook) is not getattr(Middleware, hook) for hook in hooks)


def _why_fastmcp(tool: Tool, names: Mapping[str, int]) -> str:
    """Return why a tool cannot have a call plan; empty if it can. `names` is the number of tools with each name."""
    if not isinstance(tool, PlannedTool):
        return "not a plain function"
    if tool.auth is not None:
        return "has an authorization check of its own"
    if tool.task_config.supports_tasks():
        return "may run as a task"
    return "has several versions" if names[tool.name] > 1 else ""


def _describe(plan: Plan) -> str:
    if plan.middleware:
        return f"fast, with middleware {', '.join(type(each).__name__ for each in plan.middleware)}"
    return "fast, with Context or dependencies" if _sdk.injects(plan.tool) else "fast"
