"""Tools that remember something: for a caller, for a session, between rounds; and one that says what changed."""

from fastmcp import Context
from fastmcp.tools import tool
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from mcp_swarm.shared.publish import ResourceUpdated, publish


@tool
async def remember(value: str, ctx: Context) -> str:
    """Keep a value for this session, and say what is kept."""
    await ctx.set_state("value", value)
    return str(await ctx.get_state("value"))


@tool
async def recall(ctx: Context) -> str:
    """Say what is kept for this session."""
    return str(await ctx.get_state("value"))


@tool
async def transfer(amount: int, ctx: Context) -> str | InputRequiredResult:
    """Ask whether an amount is right, and say what was answered."""
    answer = (ctx.input_responses or {}).get("sure")
    if isinstance(answer, ElicitResult) and ctx.request_state == f"asked about {amount}":
        return f"{answer.action}: {amount}"
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
    form = ElicitRequestFormParams(message=f"Transfer {amount}?", requested_schema=schema)
    return InputRequiredResult(
        input_requests={"sure": ElicitRequest(params=form)}, request_state=f"asked about {amount}"
    )


@tool
async def touch(uri: str) -> str:
    """Tell all subscribers that a resource changed."""
    await publish(ResourceUpdated(uri=uri))
    return "Told."
