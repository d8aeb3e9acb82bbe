"""Tests of an update in the tab *Swarm*: old replicas drain and go, and new ones come with their version."""

import contextlib
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, expect

from conftest import Server, until
from tests.calls import modern
from tests.console.conftest import COMPONENTS, OpenConsole
from tests.console.next_version import VERSION
from tests.replicas import KEYS, RedisServer

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser"), pytest.mark.needs("redis")]

StartReplica = Callable[..., Server]


@pytest.fixture
def start_replica(tmp_path: Path, redis_server: RedisServer) -> Iterator[StartReplica]:
    """Return a function that starts a replica with a name. All of them share a Redis."""
    with contextlib.ExitStack() as started:

        def start(name: str, **options: Any) -> Server:
            common = {"REDIS_URL": redis_server.url, "REQUEST_STATE_KEYS": KEYS, "MCP_COMPONENTS": COMPONENTS}
            server = Server(tmp_path / f"{name}.log", REPLICA_NAME=name, **common, **options)
            return started.enter_context(server)

        yield start


def _known(url: str) -> dict[str, dict[str, Any]]:
    found = httpx.get(f"{url}/replicas").json()["replicas"]
    return {each["name"]: each for each in found}


def _cells(row: Locator) -> list[str]:
    """Return the version, the state, the uptime and the requests in flight that a row shows."""
    return row.locator("td").all_inner_texts()


def _seconds(text: str) -> int:
    """Return the seconds of a duration such as `1 min 5 s`."""
    found = re.fullmatch(r"(?:(\d+) min )?(\d+) s", text)
    assert found is not None, text
    return 60 * int(found[1] or 0) + int(found[2])


def test_an_update_is_shown(start_replica: StartReplica, open_console: OpenConsole) -> None:
    """Each row says what its replica says. An old replica drains and is gone, and a new one is new."""
    first = start_replica("first")
    second = start_replica("second", DRAIN_SECONDS="4", SHUTDOWN_GRACE_SECONDS="1")
    until(lambda: len(_known(first.url)) == 2, "both replicas are known")
    console = open_console(first.url)
    panel = console.tab("Swarm")
    rows = {name: panel.get_by_role("row", name=name) for name in ("first", "second", "third")}
    expect(panel.get_by_text("2 replicas are ready.")).to_be_visible()
    with ThreadPoolExecutor() as threads:
        running = threads.submit(modern, second.url, "tools/call", {"name": "nap", "arguments": {"seconds": 600}})
        expect(rows["second"].locator("td").nth(3)).to_have_text("1", timeout=20_000)
        known = _known(first.url)
        for name in ("first", "second"):
            version, state, uptime, in_flight = _cells(rows[name])
            assert version == known[name]["version"]
            assert state.split(",")[0] == known[name]["status"] == "ready"
            assert abs(_seconds(uptime) - known[name]["uptime_seconds"] - known[name]["seconds_ago"]) < 3
            assert int(in_flight) == known[name]["in_flight"] == (1 if name == "second" else 0)
        second.process.terminate()
        expect(rows["second"]).to_have_class("replica draining", timeout=20_000)
        assert _cells(rows["second"])[1] == "draining"
        assert _known(first.url)["second"]["status"] == "draining"
        expect(panel.get_by_text("1 replica is ready.")).to_be_visible()
        start_replica("third", command=("-m", "tests.console.next_version"))
        expect(rows["third"]).to_have_class("replica new", timeout=20_000)
        assert _cells(rows["third"])[:2] == [VERSION, "ready, new"]
        assert known["first"]["version"] != VERSION
        expect(rows["second"]).to_have_class("replica gone", timeout=20_000)
        assert _cells(rows["second"])[1] == "gone"
        assert "second" not in _known(first.url)
        expect(panel.get_by_text("2 replicas are ready.")).to_be_visible()
        running.exception()
