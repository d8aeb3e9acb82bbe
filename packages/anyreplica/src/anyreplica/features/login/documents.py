"""The documents that describe clients (CIMD): the client's id is the URL of its document.

Anybody can name a URL whose host answers slowly, or whose name resolves slowly. So only a few documents are fetched at
the same time, each for a short time, and threads of their own resolve the names.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any

from anyreplica.features.login.limits import current_request
from anyreplica.http.limits import CallerPlaces, InFlight
from anyreplica.http.responses import Refused
from anyreplica.mcp.compat.oauth_proxy import DocumentUnavailable

MOST_FETCHES = 16
"""Maximum number of fetches, and of name lookups, in a replica at the same time."""
FETCHES_OF_ADDRESS = 4
"""Maximum number of fetches, and of name lookups, for one address at the same time."""
FETCH_SECONDS = 5.0
"""Time limit for a fetch, with its name lookup."""


class Places:
    """Places in a replica for work that clients cause, by address."""

    def __init__(self, what: str) -> None:
        self._all = InFlight(MOST_FETCHES, f"{what} of clients")
        self._places = CallerPlaces(FETCHES_OF_ADDRESS, f"{what} in progress, the limit of one address")

    def acquire(self, address: str) -> None:
        """Take a place. Call `release` after the work.

        Raises:
            DocumentUnavailable: there is no place (503).
        """
        try:
            self._places.acquire(address)
            try:
                self._all.acquire(None)
            except Refused:
                self._places.release(address)
                raise
        except Refused as refused:
            raise _unavailable(refused) from None

    def release(self, address: str) -> None:
        self._places.release(address)
        self._all.release()


class ClientDocuments:
    """The limits of the fetches of one replica."""

    def __init__(self) -> None:
        self._fetches = Places("document fetches")
        self._lookups = Places("name lookups for documents")
        self._threads = ThreadPoolExecutor(MOST_FETCHES, "lookup")

    @asynccontextmanager
    async def fetching(self) -> AsyncIterator[None]:
        """Hold a place for a fetch inside the block, and end the fetch after `FETCH_SECONDS`.

        Raises:
            DocumentUnavailable: there is no place, or the fetch took too long.
        """
        address = current_request().address
        self._fetches.acquire(address)
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                yield
        except TimeoutError:
            text = f"The document of the client could not be fetched within {FETCH_SECONDS:g} s; retry later."
            raise _unavailable(Refused(503, text, headers={"Retry-After": "5"})) from None
        finally:
            self._fetches.release(address)

    async def look_up(self, name: str, port: int) -> list[Any]:
        """Resolve a name, in a thread. Return what `socket.getaddrinfo` returns.

        The lookup keeps its place until its thread ends, also if the caller waits no longer: nothing can end a lookup.
        So there is always a thread for a lookup with a place.

        Raises:
            DocumentUnavailable: there is no place.
            OSError: the name cannot be resolved.
        """
        address, loop = current_request().address, asyncio.get_running_loop()
        self._lookups.acquire(address)

        def leave(_: object) -> None:
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(self._lookups.release, address)

        running = self._threads.submit(socket.getaddrinfo, name, port, socket.AF_UNSPEC, socket.SOCK_STREAM)
        running.add_done_callback(leave)
        return await asyncio.wrap_future(running)


def _unavailable(refusal: Refused) -> DocumentUnavailable:
    current_request().refusal = refusal
    return DocumentUnavailable(refusal.message)
