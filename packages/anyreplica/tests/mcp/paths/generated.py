"""Requests of all kinds that Hypothesis generates."""

from dataclasses import replace

from hypothesis import strategies as st

from tests.calls import ENVELOPE, VERSION, request
from tests.damage.dice import Dice
from tests.damage.messages import OTHERS, Call, damaged, encoded
from tests.damage.requests import Served, spoilt, to_mcp
from tests.damage.values import plain, valid
from tests.damage.wire import Request
from tests.mcp.paths.asked import HANDSHAKE, sent
from tests.mcp.paths.looks import WISHES
from tests.mcp.paths.tools import ARGUMENTS, CONTEXTS, SHIPPED, TOOLS, VALID

_WEIGHED = [*TOOLS, *SHIPPED * 5, *ARGUMENTS * 4, *CONTEXTS * 2, "no_such", "ä", "", "=?base64?dGV4dA==?=", " text"]
"""Tools to call. Tools that take arguments appear more often."""
_CALLS: list[Call] = [("tools/call", {"name": name, "arguments": VALID.get(name, {})}) for name in _WEIGHED]
_SERVED = Served(_CALLS, [*OTHERS, ("subscriptions/list", {})])
_TOOLS = [*ARGUMENTS, *SHIPPED, "injected", "injected_in_a_thread", "reports", "calls_itself", "calls_another"]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Generate any request of either protocol."""
    dice = Dice.drawn(draw)
    asked = to_mcp(dice, _SERVED, damage=3, values=valid)
    if dice.once_in(5):
        asked = spoilt(dice, asked)
    return asked if dice.once_in(50) else replace(asked, method=b"POST")


@st.composite
def calls(draw: st.DrawFn) -> Request:
    """Generate a valid call of a tool with arguments of any kind."""
    dice = Dice.drawn(draw)
    version = dice.one_of([HANDSHAKE, VERSION])
    tool = dice.one_of(_TOOLS)
    arguments = dict(VALID.get(tool, {}))
    if dice.once_in(6):
        arguments["wish"] = dice.one_of(WISHES)
    if not dice.once_in(4):
        arguments = damaged(dice, arguments, valid)
    params = {"name": tool, "arguments": None if dice.once_in(20) else arguments}
    if version == VERSION:
        params["_meta"] = ENVELOPE
    proper = sent(request("tools/call", {**params, "arguments": {}}), version)
    return replace(proper, body=encoded(dice, request("tools/call", params, plain(dice) if dice.once_in(9) else 1)))
