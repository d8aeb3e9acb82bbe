"""The planner: it decides the path of each tool at the start and after each change of the components."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.telemetry import telemetry_mode
from fastmcp.tools import FunctionTool, Tool
from mcp.shared.inbound import x_mcp_header_map

from anyreplica.components.asking import changes_visibility
from anyreplica.components.outcome import InterceptedTool, PlannedTool
from anyreplica.mcp.compat import mounts, sdk
from anyreplica.mcp.compat.mounts import Origin
from anyreplica.mcp.compat.overrides import own_way
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.fastmcp_path import FASTMCP, SDK
from anyreplica.mcp.plan import HOOKS, DirectPlan, Plan, Templates, overrides, steps_of
from anyreplica.mcp.server_setup import OWN_MIDDLEWARE

_HARMLESS = OWN_MIDDLEWARE
"""Middleware classes that do not prevent call plans and cached lists.

Either the fast path applies the rule of the middleware itself, or it hands such calls over to the FastMCP path, or the
middleware changes lists in the same way for all callers.
"""
_CALL_HOOKS = (*HOOKS, "on_call_tool")
_LIST_HOOKS = (
    *HOOKS,
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
        fallback: the name of the path that all other requests take.
        tools: call plans, by tool name.
        direct: plans of direct calls, by tool name.
        fastmcp: the reasons why the other tools take the FastMCP path, by tool name.
        schemas: input schemas of all tools, by tool name. A name may have several versions.
        annotated: input schemas that repeat an argument in a header (`x-mcp-header`), by tool name.
        cacheable: whether all callers that may use the same tools get the same lists, until components change.
    """

    tools: dict[str, Plan] = field(default_factory=dict)
    direct: dict[str, DirectPlan] = field(default_factory=dict)
    fastmcp: dict[str, str] = field(default_factory=dict)
    schemas: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    annotated: dict[str, Any] = field(default_factory=dict)
    cacheable: bool = False
    fallback: str = FASTMCP

    @property
    def paths(self) -> dict[str, str]:
        """The path of each tool. A path other than the plain fast path includes its reason or condition."""
        fast = {name: _describe(plan) for name, plan in self.tools.items()}
        fastmcp = {name: f"{self.fallback}: {reason}" for name, reason in self.fastmcp.items()}
        return dict(sorted({**fast, **fastmcp}.items()))


async def plan(mcp: FastMCP, seconds: float, timeouts: dict[str, float], *, keeps_state: bool) -> Plans:
    """Make a call plan for every tool that can have one.

    Args:
        seconds: time limit of a call.
        timeouts: this function puts the time limits of tools with a timeout of their own into it, in seconds, by name.
        keeps_state: whether the server keeps the state of sessions.
    """
    tools = await mounts.origins(mcp)
    names = Counter(tool.name for tool, _ in tools)
    registered = [each for each in mcp.middleware if not isinstance(each, _HARMLESS)]
    around = tuple(each for each in registered if overrides(each, _CALL_HOOKS))
    for_all = ""
    if keeps_state and any(isinstance(at.tool, FunctionTool) and changes_visibility(at.tool) for _, at in tools):
        for_all = "a tool shows or hides components for its session"
    elif telemetry_mode() == "propagation_only":
        for_all = "trace contexts are propagated without spans"  # only the FastMCP path does this
    open_names = mounts.open_names(mcp, _why_open)
    plans, templates = Plans(), Templates(mcp)
    limits: dict[str, list[float | None]] = {}
    indirect = set[str]()
    for tool, origin in tools:
        plans.schemas.setdefault(tool.name, []).append(tool.parameters)
        if x_mcp_header_map(tool.parameters):
            plans.annotated[tool.name] = tool.parameters
        inner = origin.tool
        own = inner.seconds if isinstance(inner, PlannedTool) else getattr(inner, "timeout", None)
        limits.setdefault(tool.name, []).append(own)
        if for_all or not _may_be_direct(tool, origin):
            indirect.add(tool.name)
        reason = for_all or _why_fastmcp(tool, origin, names, open_names)
        if reason or not isinstance(inner, PlannedTool):
            plans.fastmcp[tool.name] = reason
        else:
            planned = inner if inner.name == tool.name else inner.model_copy(update={"name": tool.name})
            plans.tools[tool.name] = Plan(planned, own or seconds, around, templates, origin.servers[-1])
    timeouts.clear()
    for name, own_limits in limits.items():  # a name may have several versions
        longest = max(each or seconds for each in own_limits)
        if any(own_limits):
            timeouts[name] = longest
        if name not in indirect:
            plans.direct[name] = DirectPlan(name, longest, steps_of(around), templates)
    plans.cacheable = (
        not for_all
        and mounts.are_lists_steady(mcp)
        and not any(overrides(each, _LIST_HOOKS) for each in registered)
        and not any(overrides(each, _LIST_HOOKS) for server in mounts.servers_of(mcp)[1:] for each in _own(server))
        and await mounts.are_for_all(mcp)
    )
    return plans


def plan_sdk_server(mcp: SdkServer) -> Plans:
    """Return the paths of the tools of an SDK server, which have no call plans.

    Its own code says for each call whether the tool repeats arguments in headers, see `check_param_headers`.
    """
    return Plans(fastmcp=mcp.known_tools(), fallback=SDK)


def _own(server: FastMCP) -> list[Middleware]:
    """Return the middleware of a server that may treat callers differently."""
    return [each for each in server.middleware if not isinstance(each, _HARMLESS)]


def _why_open(server: FastMCP) -> str:
    """Return why a mounted server may have tools that it does not list; empty if it lists all."""
    if transform := mounts.unsteady_transform(server):
        return f"the transform {transform} may hide a tool of this name from lists, but not from calls"
    if own := own_way(server):
        return f"{own}, so it may have a tool of this name that it does not list"
    for each in _own(server):
        if overrides(each, (*HOOKS, "on_list_tools")):
            return f"the middleware {type(each).__name__} may hide a tool of this name from lists, but not from calls"
    return ""


def _why_fastmcp(tool: Tool, origin: Origin, names: Mapping[str, int], open_names: Iterable[tuple[str, str]]) -> str:
    """Return why a tool cannot have a call plan; empty if it can.

    Args:
        names: number of tools with each name.
        open_names: prefixes of names under which a tool may be called that is not listed, each with the reason.
    """
    for server in origin.servers:
        if reason := mounts.why_unplannable(server):
            return reason
    for prefix, why_open in open_names:
        if tool.name.startswith(prefix):
            return why_open
    if names[tool.name] > 1:
        return "has several versions"
    mounted = [each for server in origin.servers[1:] for each in _own(server) if overrides(each, _CALL_HOOKS)]
    if mounted:
        return f"its mounted server has the middleware {type(mounted[0]).__name__}"
    if origin.tool is None:
        return "its mounted server lists no single tool of this name"
    return _why_special(origin.tool)


def _may_be_direct(tool: Tool, origin: Origin) -> bool:
    """Return whether FastMCP's `call_tool` needs nothing that the SDK's steps around it provide.

    These steps run the protocol extensions. FastMCP also changes the results of apps' tools after them.
    """
    if (
        mounts.intercepting(origin.servers[0])
        or own_way(origin.servers[0])
        or tool.task_config.supports_tasks()
        or isinstance(tool, InterceptedTool)
    ):
        return False
    return all("ui" not in (each.meta or {}) for each in (tool, origin.tool) if each is not None)


def _why_special(tool: Tool | None) -> str:
    if not isinstance(tool, PlannedTool):
        return "not a plain function"
    if "ui" in (tool.meta or {}):
        return "belongs to an app (MCP Apps)"
    if tool.auth is not None:
        return "has an authorization check of its own"
    return "may run as a task" if tool.task_config.supports_tasks() else ""


def _describe(plan: Plan) -> str:
    if plan.middleware:
        return f"fast, with middleware {', '.join(type(each).__name__ for each in plan.middleware)}"
    return "fast, with Context or dependencies" if sdk.injects(plan.tool) else "fast"
