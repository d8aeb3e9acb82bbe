"""A table of events under load: the failed and the slow calls during each of them."""

import json
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from tests.process.test_drain import sent
from tests.swarm.stack import Load, failures, load

RATE = 15
"""Calls per second over each way."""
SECONDS_BEFORE, SECONDS_AFTER = 5, 10
_MOST_TIMES = 20
"""Maximum number of failed calls whose start time is recorded. The time is in seconds since the load started."""

Event = Callable[[], str]
"""A function that causes an event, waits until it is over, and returns a text about its duration."""


class Table:
    """Measures events, and appends a line of JSON for each of them and each way to a file.

    Args:
        file: the file.
        ways: the port of each way to the replicas.
    """

    def __init__(self, file: Path, ways: Mapping[str, int]) -> None:
        self.file = file
        self.ways = ways
        self.host = "127.0.0.1"
        """The host that callers connect to."""

    def measure(self, name: str, event: Event, *call: str, callers: int = 12) -> None:
        """Cause an event under load, and record the failed and the slow calls."""
        with ExitStack() as stack:
            loads: dict[str, Load] = {}
            for way, port in self.ways.items():
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                url = f"http://{self.host}:{port}"
                loads[way] = stack.enter_context(load(url, folder, RATE, callers=callers, call=call))
            first = next(iter(loads.values()))
            first.wait_for(SECONDS_BEFORE * RATE)
            took = event()
            first.wait_for(int(RATE * (first.seconds + SECONDS_AFTER)))
            for way, running in loads.items():
                self.note(name, way, took, running, running.stop())

    def note(self, name: str, way: str, took: str, running: Load, runs: list[dict[str, Any]]) -> None:
        """Print a line of figures and append it to the file."""
        slow = running.slower_than(0)
        spans = sorted(span for kind in running.spans_of_failed() for span in kind)
        figures = {
            "event": name,
            "way": way,
            "requests": sum(run["requests"] for run in runs),
            "failed": sum(run["failed"] for run in runs),
            "kinds": [{"kind": each["kind"], "count": each["count"]} for each in failures(runs)],
            "longest failure": round(max((ended - begun for begun, ended in spans), default=0), 2),
            "failed at": [round(begun, 1) for begun, _ in spans[:_MOST_TIMES]],
            "over a second": sum(seconds > 1 for seconds in slow),
            "longest": round(max(slow, default=0), 2),
            "took": took,
        }
        line = json.dumps(figures)
        print(line, flush=True)
        with self.file.open("a") as lines:
            lines.write(f"{line}\n")

    def beside_long_calls(self, act: Callable[[], object]) -> str:
        """Act while calls of 3 s and 20 s run over each way, and return how long it took."""
        answers: list[int] = []

        def call(port: int, tool: str, seconds: float, family: str) -> None:
            reply = httpx.post(f"http://{self.host}:{port}/mcp", timeout=60, **sent(tool, seconds, family))
            answers.append(reply.status_code if "took " in reply.text else 0)

        calls = [
            threading.Thread(target=call, args=(port, tool, seconds, family))
            for port in self.ways.values()
            for tool in ("take", "report_and_take")
            for seconds in (3, 20)
            for family in ("legacy", "modern")
        ]
        for each in calls:
            each.start()
        began = time.monotonic()
        act()
        took = time.monotonic() - began
        for each in calls:
            each.join()
        return f"{took:.0f} s; {answers.count(200)} of {len(calls)} long calls succeeded"
