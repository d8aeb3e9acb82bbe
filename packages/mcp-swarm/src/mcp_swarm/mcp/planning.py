"""Which lane each tool takes, decided when the server starts and again when its components change."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.middleware import Middleware
from fastmcp.telemetry import telemetry_mode
from fastmcp.tools import Tool
from mcp.shared.inbound import x_mcp_header_map

from mcp_swarm.auth.visibility import Visibility
from mcp_swarm.components.call_limits import CallGuard
from mcp_swarm.components.outcome import PlannedTool
from mcp_swarm.mcp import _sdk
from mcp_swarm.mcp.plan import Plan, Templates, compile_plan, why_full

_EVERYWHERE = (CallGuard, Visibility, *_sdk.BUILT_IN_MIDDLEWARE)
"""What the lanes do by themselves."""
_CALL_HOOKS = ("__call__", "on_message", "on_request", "on_call_tool")
_OTHER_HOOKS = (
    "__call__",
    "on_message",
    "on_request",
    "on_discover",
    "on_list_tools",
    "on_list_resources",
    "on_list_resource_templates",
    "on_list_prompts",
)


@dataclass
class Plans:
    """What the lanes need to know of the components.

    Attributes:
        tools: plans by tool's name.
        full: why the other tools take the full lane, by name.
        annotated: input schemas that mirror an argument into a header, by tool's name.
        cacheable: whether every caller who may use the same tools gets the same lists, until components change.
    """

    tools: dict[str, Plan] = field(default_factory=dict)
    full: dict[str, str] = field(default_factory=dict)
    annotated: dict[str, Any] = field(default_factory=dict)
    cacheable: bool = False

    @property
    def lanes(self) -> dict[str, str]:
        """For each tool its lane and, where it isn't plainly the fast one, why."""
        fast = {name: _describe(plan) for name, plan in self.tools.items()}
        full = {name: f"full: {reason}" for name, reason in self.full.items()}
        return dict(sorted({**fast, **full}.items()))


async def plan(mcp: FastMCP, seconds: float, timeouts: Mapping[str, float]) -> Plans:
    """Compile every tool that can be.

    Args:
        seconds: a call's time, unless its tool has one of its own.
        timeouts: seconds by tool's name.
    """
    tools = await mcp.list_tools(run_middleware=False)
    names = Counter(tool.name for tool in tools)
    registered = [each for each in mcp.middleware if not isinstance(each, _EVERYWHERE)]
    around = tuple(each for each in registered if _overrides(each, _CALL_HOOKS))
    everywhere = _sdk.why_unplannable(mcp) or _propagated()
    plans, templates = Plans(), Templates(mcp)
    for tool in tools:
        if x_mcp_header_map(tool.parameters):
            plans.annotated[tool.name] = tool.parameters
        reason = everywhere or why_full(tool, names)
        if reason or not isinstance(tool, PlannedTool):
            plans.full[tool.name] = reason
        else:
            plans.tools[tool.name] = compile_plan(tool, timeouts.get(tool.name, seconds), around, templates)
    components: list[Tool | Prompt | Resource | ResourceTemplate] = [
        *tools,
        *await mcp.list_prompts(run_middleware=False),
        *await mcp.list_resources(run_middleware=False),
    ]
    components += await mcp.list_resource_templates(run_middleware=False)
    plans.cacheable = (
        not everywhere
        and not any(_overrides(each, _OTHER_HOOKS) for each in registered)
        and all(component.auth is None for component in components)
    )
    return plans


def _overrides(middleware: Middleware, hooks: tuple[str, ...]) -> bool:
    return any(getattr(type(middleware), hook) is not getattr(Middleware, hook) for hook in hooks)


def _propagated() -> str:
    """Why trace contexts have to be passed on without spans, if they have: the full lane does that."""
    return "trace contexts are propagated" if telemetry_mode() == "propagation_only" else ""


def _describe(plan: Plan) -> str:
    if plan.middleware:
        return f"fast, within {', '.join(type(each).__name__ for each in plan.middleware)}"
    return "fast, with Context or dependencies" if _sdk.injects(plan.tool) else "fast"
