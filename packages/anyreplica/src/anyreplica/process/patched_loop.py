"""The event loop for EVENT_LOOP=asyncio. A tool may patch a loop that runs, for example with `nest_asyncio`."""

import asyncio
from collections import deque


class _Ready(deque[asyncio.Handle]):
    """The callbacks that are ready.

    A turn of asyncio's loop counts them, and then takes as many. If one of them calls `nest_asyncio.apply()` and begins
    a loop inside of this turn, the inner loop takes the others, and the turn would end the process with an IndexError.
    So an empty queue gives the turn a callback that does nothing.
    """

    def __init__(self, nothing: asyncio.Handle) -> None:
        super().__init__()
        self._nothing = nothing

    def popleft(self) -> asyncio.Handle:
        return super().popleft() if self else self._nothing


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop of asyncio."""
    loop = asyncio.SelectorEventLoop()
    nothing = asyncio.Handle(print, (), loop)
    nothing.cancel()
    loop._ready = _Ready(nothing)  # type: ignore[attr-defined]  # noqa: SLF001
    return loop
