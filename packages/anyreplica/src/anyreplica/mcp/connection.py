"""The SDK's connection of a call whose client is not known."""

from contextlib import AsyncExitStack
from functools import cached_property

import anyio
from mcp.server.connection import Connection
from mcp.shared.dispatcher import Outbound


class UnknownClient(Connection):
    """A connection of one call, whose client has not said who it is.

    `Connection.from_envelope` makes the same, but it validates the missing values, which costs two exceptions. It also
    makes an event and a stack, which hardly any call uses.
    """

    def __init__(self, version: str, outbound: Outbound) -> None:
        self.outbound = outbound
        self.protocol_version = version
        self.session_id = None
        self.client_capabilities = None
        self.client_params = None
        self.state = {}

    @cached_property
    def initialized(self) -> anyio.Event:  # type: ignore[override]
        event = anyio.Event()
        event.set()
        return event

    @cached_property
    def exit_stack(self) -> AsyncExitStack:  # type: ignore[override]
        return AsyncExitStack()
