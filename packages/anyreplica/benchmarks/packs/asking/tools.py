"""A tool that asks its client many times."""

import time

from fastmcp import Context
from fastmcp.tools import tool

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


async def ask(times: int, ctx: Context) -> list[float]:
    """Ask for a name several times, and return how long each answer took, in milliseconds.

    Args:
        times: Number of questions.
    """
    took = []
    for _ in range(times):
        began = time.perf_counter()
        answer = await ctx.session.elicit("Your name?", SCHEMA, related_request_id=ctx.request_id)
        took.append((time.perf_counter() - began) * 1000)
        assert answer.content == {"name": "Ada"}  # noqa: S101
    return took


asking = tool(ask)
