"""Tools that ask their client in the middle of a call, with `await`."""

import asyncio
import json
from pathlib import Path

from fastmcp import Context
from fastmcp.prompts import prompt
from fastmcp.resources import resource
from fastmcp.server.elicitation import AcceptedElicitation
from fastmcp.tools import tool
from mcp import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


@tool
async def greet(ctx: Context) -> str:
    """Ask for a name and return a greeting."""
    answer = await ctx.elicit("What is your name?", str)
    return f"Hello, {answer.data}!" if isinstance(answer, AcceptedElicitation) else f"You said {answer.action}."


@tool
async def visit(ctx: Context) -> str:
    """Send the user to a web page."""
    answer = await ctx.session.elicit_url(
        "Log in", "https://example.com/", "login-1", related_request_id=ctx.request_id
    )
    return answer.action


@tool
async def folders(ctx: Context) -> str:
    """Return the client's roots, after a ping. Neither request names the call that it belongs to."""
    await ctx.session.send_ping()
    return ", ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@tool
async def why_not(ctx: Context) -> str:
    """Ask for a name and return the error."""
    try:
        return (await ctx.elicit("What is your name?", str)).action
    except MCPError as error:
        return f"{error.code}: {error.message}"


@tool
async def nap(seconds: float) -> str:
    """Return after some seconds."""
    await asyncio.sleep(seconds)
    return f"{seconds:g}"


@tool(timeout=2)
async def patient(seconds: float, ctx: Context) -> str:
    """Ask for a name, then work for some seconds. The wait for the client does not count for the limit of 2 s."""
    await ctx.elicit("What is your name?", str)
    await asyncio.sleep(seconds)
    return "Done."


@tool
async def two_at_once(ctx: Context) -> str:
    """Ask two questions at once and return both answers."""
    first, second = await asyncio.gather(ctx.elicit("First?", str), ctx.elicit("Second?", str))
    return f"{getattr(first, 'data', None)} and {getattr(second, 'data', None)}"


@tool
async def number(ctx: Context) -> str:
    """Return the id of the request without asking anything."""
    return ctx.request_id


@tool
async def endless(ctx: Context) -> InputRequiredResult:
    """Ask again in each round."""
    return _question()


@tool
async def interview(path: str, ctx: Context) -> str | InputRequiredResult:
    """Ask for a name, then for two colours at once. Each round appends its number to a file."""
    told = [*json.loads(ctx.request_state or "[]"), *_names(ctx)]
    with Path(path).open("a") as file:  # noqa: ASYNC230
        file.write(f"{len(told)} ")
    if len(told) == 3:
        return ", ".join(told)
    asked = ("name",) if not told else ("first colour", "second colour")
    return InputRequiredResult(
        input_requests={each: _form(f"Your {each}?") for each in asked}, request_state=json.dumps(told)
    )


@tool
async def stuck(path: str, ctx: Context) -> str | InputRequiredResult:
    """Ask for a name, then work for an hour in the second round."""
    if _name(ctx):
        Path(path).write_text("working")  # noqa: ASYNC240
        await asyncio.sleep(3600)
    return _question()


@tool
async def outer(path: str, ctx: Context) -> str:
    """Append to a file, then call a multi-round tool."""
    with Path(path).open("a") as file:  # noqa: ASYNC230
        file.write("outer ")
    result = await ctx.fastmcp.call_tool("interview", {"path": path})
    return str(result.content[0].text)  # type: ignore[union-attr]


@tool
async def watched(ctx: Context) -> str:
    """Ask for a name and return what the client reports about its progress before its answer."""
    told: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(f"{progress:g} of {total or 0:g}: {message}")

    asked = _form("What is your name?")
    await ctx.session.send_request(asked, ElicitResult, progress_callback=note)
    return ", ".join(told)


@prompt
async def introduction(ctx: Context) -> str | InputRequiredResult:
    """Ask for a name and return a prompt with it."""
    return f"I am {_name(ctx)}." if _name(ctx) else _question()


@resource("asking://{key}")
async def profile(key: str, ctx: Context) -> str | InputRequiredResult:
    """Ask for a name and return a resource with it."""
    return f"{key}: {_name(ctx)}" if _name(ctx) else _question()


def _question() -> InputRequiredResult:
    return InputRequiredResult(input_requests={"name": _form("What is your name?")})


def _form(text: str) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=text, requested_schema=_SCHEMA))


def _names(ctx: Context) -> list[str]:
    """Return the name in each answer of this round."""
    answers = (ctx.input_responses or {}).values()
    return [str((each.content or {}).get("name")) for each in answers if isinstance(each, ElicitResult)]


def _name(ctx: Context) -> str:
    return "".join(_names(ctx))
