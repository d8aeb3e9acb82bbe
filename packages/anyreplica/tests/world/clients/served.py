"""The server that the clients call."""

from fastmcp import Context, FastMCP
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

mcp = FastMCP("calculator")

_NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@mcp.tool
async def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@mcp.tool
async def count(ctx: Context, steps: int = 3) -> str:
    """Count and report the progress."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps)
    return f"counted to {steps}"


@mcp.tool
async def greet(ctx: Context) -> str | InputRequiredResult:
    """Ask for the user's name and return a greeting."""
    for answer in (ctx.input_responses or {}).values():
        if isinstance(answer, ElicitResult) and answer.content:
            return f"Hello, {answer.content['name']}!"
    asked = ElicitRequestFormParams(message="What is your name?", requested_schema=_NAME)
    return InputRequiredResult(input_requests={"name": ElicitRequest(params=asked)})
