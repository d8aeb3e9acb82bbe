"""Tests of cached lists."""

import asyncio
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from anyreplica.http.request_record import new_record
from anyreplica.mcp.call import Call
from anyreplica.mcp.fastmcp_path import CachedLists
from anyreplica.mcp.message import Envelopes, Request
from anyreplica.mcp.reply import Reply


class _Slow:
    """A replacement for the FastMCP path that answers when the test allows it."""

    def __init__(self) -> None:
        self.names = ["old"]
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def result(self, _: Call) -> dict[str, Any]:
        """Return the list that existed when the request arrived."""
        names = list(self.names)
        self.asked.set()
        await self.go_on.wait()
        return {"tools": names}


@pytest.mark.anyio
async def test_a_list_from_before_a_change_is_not_cached() -> None:
    """A list is not cached if the components change while the FastMCP path prepares it."""
    full, sent = _Slow(), []

    async def send(message: Any) -> None:
        sent.append(message)

    lists = CachedLists(cast("Any", full), Envelopes())
    reply = Reply({}, AsyncMock(side_effect=AssertionError), send, False)
    call = Call(Request(1, "tools/list", None, 50), "2025-11-25", False, {}, new_record({}), reply)
    asking = asyncio.ensure_future(lists.answer(call))
    await full.asked.wait()
    full.names = ["new"]
    lists.forget()
    full.go_on.set()
    await asking
    await lists.answer(call)
    bodies = b"".join(message.get("body", b"") for message in sent)
    assert b"new" in bodies
    assert b"old" not in bodies
