"""Tools that run as tasks, with FastMCP's own options of the tasks extension."""

import asyncio
from datetime import timedelta

from fastmcp import Context, FastMCP
from fastmcp.dependencies import Depends, Progress
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_http_headers
from fastmcp.utilities.tasks import TaskConfig
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

mcp = FastMCP("tasks")


def unit() -> str:
    """Return a unit."""
    return "pages"


@mcp.tool(task=True)
async def print_book(pages: int, ctx: Context, progress: Progress = Progress(), of: str = Depends(unit)) -> str:  # noqa: B008
    """Print a book, now or later."""
    await progress.set_total(pages)
    for _ in range(pages):
        await progress.increment()
    how = "later" if ctx.is_background_task else "now"
    return f"{pages} {of}, {how}, by {ctx.fastmcp.name}, for {get_http_headers().get('x-test')}"


@mcp.tool(task=TaskConfig(mode="required", poll_interval=timedelta(milliseconds=50)))
async def only_later() -> dict[str, int]:
    """Do something that always takes long."""
    return {"done": 1}


@mcp.tool(task=True)
async def fails_later() -> str:
    """Fail."""
    raise ToolError("no paper")


def _printed(ctx: Context) -> str | InputRequiredResult:
    answer = (ctx.input_responses or {}).get("paper")
    if isinstance(answer, ElicitResult):
        return f"printed on {(answer.content or {})['size']}"
    schema = {"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]}
    form = ElicitRequestFormParams(message="Which paper?", requested_schema=schema)
    return InputRequiredResult(input_requests={"paper": ElicitRequest(params=form)})


@mcp.tool(task=True)
async def waits(ctx: Context) -> str | InputRequiredResult:
    """Ask how to go on."""
    return _printed(ctx)


@mcp.tool(task=TaskConfig(mode="required", poll_interval=timedelta(milliseconds=50)))
async def asks_first(ctx: Context) -> str | InputRequiredResult:
    """Ask how to go on, and then do something that always takes long."""
    if not ctx.is_background_task:
        raise ToolError("this is no task")
    return _printed(ctx)


@mcp.tool(task=True, timeout=60)
async def never_ends() -> None:
    """Wait for a cancellation."""
    await asyncio.Event().wait()
