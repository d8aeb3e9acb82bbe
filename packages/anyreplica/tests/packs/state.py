"""Tools that store state for a session or between rounds, and a tool that publishes a change."""

from fastmcp import Context
from fastmcp.resources import resource
from fastmcp.tools import tool
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from anyreplica.shared.publish import ResourceUpdated, publish


@tool
async def remember(value: str, ctx: Context) -> str:
    """Store a value for this session and return the stored value."""
    await ctx.set_state("value", value)
    return str(await ctx.get_state("value"))


@tool
async def recall(ctx: Context) -> str:
    """Return the value that is stored for this session."""
    return str(await ctx.get_state("value"))


@tool
async def transfer(amount: int, ctx: Context) -> str | InputRequiredResult:
    """Ask if an amount is right and return the answer."""
    answer = (ctx.input_responses or {}).get("sure")
    if isinstance(answer, ElicitResult) and ctx.request_state == f"asked about {amount}":
        return f"{answer.action}: {amount}"
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
    form = ElicitRequestFormParams(message=f"Transfer {amount}?", requested_schema=schema)
    return InputRequiredResult(
        input_requests={"sure": ElicitRequest(params=form)}, request_state=f"asked about {amount}"
    )


@resource("a://{name}")
async def named(name: str) -> str:
    """Return the name."""
    return name


@tool
async def touch(uri: str) -> str:
    """Notify all subscribers that a resource has changed."""
    await publish(ResourceUpdated(uri=uri))
    return "Told."
