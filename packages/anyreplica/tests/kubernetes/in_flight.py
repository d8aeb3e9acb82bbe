"""Calls that a test keeps open, so that it knows how many of them run at each replica."""

import threading
from collections import Counter
from typing import Any

import httpx

from conftest import until
from tests.calls import HEADERS, request
from tests.process.test_drain import sent

CALLS = 24
"""Number of open calls. With fewer, one of three replicas might have none of them."""


class OpenCalls:
    """Calls of a tool that takes some time, each on a connection of its own, in both protocol families.

    They are in flight when the object is made.

    Args:
        url: URL of the server.
        seconds: duration of each call.
        verify: the settings of TLS that the client trusts.
    """

    def __init__(self, url: str, seconds: float, verify: Any = True) -> None:
        # Without kept connections, each request may go to another replica.
        self._client = httpx.Client(base_url=url, timeout=120, verify=verify, headers={"Connection": "close"})
        self._answers: list[httpx.Response | httpx.TransportError] = []
        known = self.begun()
        self._threads = [
            threading.Thread(target=self._call, args=(seconds, ("legacy", "modern")[number % 2]))
            for number in range(CALLS)
        ]
        for each in self._threads:
            each.start()
        self.running: dict[str, int] = {}
        """How many of the calls run at each replica."""

        def all_run() -> bool:
            begun = self.begun()
            self.running = {name: count - known[name] for name, count in begun.items()}
            return sum(self.running.values()) == CALLS

        until(all_run, lambda: f"{CALLS} calls run: {self.running}, {self._answers}", seconds)
        assert min(self.running.values()) > 0, self.running

    def begun(self, replicas: int = 3) -> dict[str, int]:
        """Return the number of calls that each replica has begun since its start."""
        found: dict[str, int] = {}

        def all_answered() -> bool:
            asked = request("tools/call", {"name": "begun", "arguments": {}})
            reply = self._client.post("/mcp", json=asked, headers=HEADERS)
            found[reply.headers["X-Served-By"]] = reply.json()["result"]["structuredContent"]["result"]
            return len(found) == replicas

        until(all_answered, lambda: f"{replicas} replicas answer, not {found}")
        return found

    def lost(self) -> list[str]:
        """Return what the callers of the calls got that have failed so far: a status, or the name of an exception."""
        return [
            str(each.status_code) if isinstance(each, httpx.Response) else type(each).__name__
            for each in list(self._answers)
            if not _succeeded(each)
        ]

    def served(self) -> Counter[str]:
        """Wait for the end of all calls, and return the number of successful calls by replica."""
        for each in self._threads:
            each.join()
        succeeded = [each for each in self._answers if isinstance(each, httpx.Response) and _succeeded(each)]
        return Counter(each.headers["X-Served-By"] for each in succeeded)

    def _call(self, seconds: float, family: str) -> None:
        try:
            self._answers.append(self._client.post("/mcp", **sent("take", seconds, family)))
        except httpx.TransportError as error:
            self._answers.append(error)


def _succeeded(answer: httpx.Response | httpx.TransportError) -> bool:
    return isinstance(answer, httpx.Response) and answer.status_code == 200 and "took " in answer.text
