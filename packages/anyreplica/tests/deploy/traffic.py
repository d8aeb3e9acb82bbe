"""Callers of all kinds, which produce data for the dashboards."""

import contextlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx

from anyreplica.features.keys.key import hash_of
from conftest import Server
from tests.calls import ENVELOPE, HEADERS, VERSION, request
from tests.sessions.client import ADA, start

TOKEN = "t" * 40
HURRIED = "h" * 40
"""The key of a caller whose rate limit is one call per hour."""
SETTINGS = {
    "MCP_COMPONENTS": "server,tests.packs.hostile.prompts,tests.packs.observed,tests.packs.timed,tests.packs.working",
    "AUTH_ENABLED": "true",
    "AUTH_TOKEN": TOKEN,
    "MAX_IN_FLIGHT": "2",
    "MAX_BODY_BYTES": "4096",
    "JOBS_CONCURRENCY": "1",
    "HANDSHAKE_SESSIONS": "full",
}
"""Settings with which some of the calls are refused. API_KEYS_FILE must name a file of `write_keys`."""


def write_keys(file: Path) -> str:
    """Write the key file of the callers, and return its path."""
    file.write_text(json.dumps({"id": "hurried", "hash": hash_of(HURRIED), "rate": "1/h"}))
    return str(file)


@contextlib.contextmanager
def traffic(replicas: list[Server]) -> Iterator[None]:
    """Send some rounds of requests per second, each to the next replica, until the block ends."""
    over = threading.Event()
    thread = threading.Thread(target=_send, args=(cycle(replicas), over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _send(replicas: Iterator[Server], over: threading.Event) -> None:
    headers = {**HEADERS, "Authorization": f"Bearer {TOKEN}"}
    with ThreadPoolExecutor(6) as pool:
        while not over.wait(0.2):
            url, following = next(replicas).url, next(replicas).url
            # Let a tool ask its client, which answers at the next replica.
            start(url, Authorization=f"Bearer {TOKEN}").call([url, following], "agreed", lambda _: ADA)
            with httpx.Client(base_url=url, headers=headers, timeout=10, verify=False) as client:
                _round(client, pool)


def _round(client: httpx.Client, pool: ThreadPoolExecutor) -> None:
    """Send valid and invalid requests."""
    for _ in range(5):
        _call(client, "echo", message="hi")
    stateless = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/list"}
    client.post("/mcp", json=request("tools/list", {"_meta": ENVELOPE}), headers=stateless)
    _call(client, "remembered", number=1)
    _call(client, "unreachable")
    _call(client, "echo", message="hi", repeat=99)
    _call(client, "no such tool")
    _ask(client, "no/such/method")
    _ask(client, "resources/read", {"uri": "hostile://fails"})
    client.post("/mcp", json=request("tools/list"), headers={"Authorization": "Bearer wrong"})
    client.post("/mcp", content=b" " * 5000)
    # Send more calls than MAX_IN_FLIGHT at the same time, and one whose client hangs up.
    slow = [pool.submit(_call, client, "take", seconds=0.1) for _ in range(4)]
    with contextlib.suppress(httpx.ReadTimeout):
        client.post("/mcp", json=_tool_call("take", seconds=0.5), timeout=0.1)
    for each in slow:
        each.result()
    _submit(client, "text_of", length=3)
    _submit(client, "tells", why="no")
    client.delete(f"/jobs/{_submit(client, 'text_of', length=3)}")
    for _ in range(5):
        client.post("/mcp", json=request("tools/list"), headers={"Authorization": f"Bearer {HURRIED}"})


def _ask(client: httpx.Client, method: str, params: dict[str, Any] | None = None) -> None:
    client.post("/mcp", json=request(method, params))


def _tool_call(tool: str, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", {"name": tool, "arguments": arguments})


def _call(client: httpx.Client, tool: str, **arguments: Any) -> None:
    client.post("/mcp", json=_tool_call(tool, **arguments))


def _submit(client: httpx.Client, job: str, **params: Any) -> str:
    """Submit a job and return its id, or an invalid id if the replica refused the job."""
    identity: str = client.post("/jobs", json={"job": job, "params": params}).json().get("id", "refused")
    return identity
