"""The keys that are valid at the moment."""

import asyncio
import json
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from anyreplica.features.keys.key import KeyRing, hash_of
from anyreplica.settings.rate import NO_RATE
from conftest import Server, StartServer, until
from tests.calls import HEADERS, legacy, request

pytestmark = pytest.mark.slow

A, B, C = (letter * 40 for letter in "abc")


def line(name: str, key: str, **more: object) -> str:
    """Return one entry of the key file."""
    return json.dumps({"id": name, "hash": hash_of(key), **more}) + "\n"


def replace(file: Path, text: str) -> None:
    """Replace the whole file at once, as an editor or a deployment tool does."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


def status(url: str, key: str) -> int:
    """Return the HTTP status of a call with a key."""
    return legacy(url, "tools/list", Authorization=f"Bearer {key}").status_code


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A key file with the key A."""
    found = tmp_path / "api_keys"
    found.write_text(line("a", A))
    return found


@pytest.fixture
def secured(start_server: StartServer, file: Path) -> Server:
    """A replica that has the key file and a token."""
    return start_server(AUTH_ENABLED="true", API_KEYS_FILE=str(file), AUTH_TOKEN="s3cret-token")


def test_keys_and_the_token_are_accepted(secured: Server) -> None:
    """A replica accepts the keys and the token, and nothing else."""
    assert [status(secured.url, key) for key in (A, "s3cret-token", B, "x", hash_of(A))] == [200, 200, 401, 401, 401]


def test_a_changed_key_file_is_reloaded(secured: Server, file: Path) -> None:
    """A replica reads a changed key file within about a second and logs the change; a bad file changes nothing."""
    replace(file, line("a", A) + line("b", B))
    until(lambda: status(secured.url, B) == 200, "the replica accepts the new key")
    assert status(secured.url, A) == 200
    replace(file, line("b", B))
    until(lambda: status(secured.url, A) == 401, "the replica refuses the old key")
    assert "added: none; removed: a" in secured.output
    replace(file, line("b", B) + "nonsense\n")
    kept = "API keys not reloaded; the previous keys stay valid"
    until(lambda: kept in secured.output, "the log reports the invalid file")
    assert f"{file}, line 2: not a JSON object" in secured.output
    file.unlink()
    until(lambda: "cannot be read: No such file" in secured.output, "the log reports the missing file")
    assert status(secured.url, B) == 200
    replace(file, line("c", C))
    until(lambda: status(secured.url, C) == 200, "the replica accepts the key of the new file")
    assert status(secured.url, B) == 401
    assert not any(secret in secured.output for secret in (A, B, C, "s3cret"))


@pytest.mark.anyio
async def test_a_replica_waits_for_a_complete_key_file(file: Path) -> None:
    """A replica waits until a key file is written completely; its first half may be valid, but lacks keys."""
    replace(file, line("a", A) + line("b", B))
    ring = KeyRing(None, file, NO_RATE)

    def write_on() -> None:
        for number in range(50):
            file.write_text(line("a", A) + "\n" * number)
            time.sleep(0.02)  # as slowly as a copy over a network

    async with ring.running():
        writing = asyncio.get_running_loop().run_in_executor(None, write_on)
        while not writing.done():
            await asyncio.sleep(0)
            assert ring.caller(B.encode()) is not None


def test_a_key_is_valid_in_its_period(file: Path) -> None:
    """A key is valid from `not_before` until `expires`."""
    text = line("past", A, expires="2026-01-01T00:00:00Z") + line("future", B, not_before="2999-01-01T00:00:00Z")
    file.write_text(text + line("now", C, not_before="2026-01-01T00:00:00Z", expires="2999-01-01T00:00:00Z"))
    ring = KeyRing(None, file, NO_RATE)
    assert [ring.caller(key.encode()) is not None for key in (A, B, C)] == [False, False, True]


def test_long_keys_do_not_fill_the_memory(file: Path) -> None:
    """A client can send many long keys that nobody has. The replica keeps none of them."""
    ring = KeyRing(None, file, NO_RATE)
    tracemalloc.start()
    try:
        assert not any(ring.caller(b"%04d" % number * 10_000) for number in range(1000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
    assert ring.caller(A.encode()) is not None


def test_a_rotation_loses_no_request(start_server: StartServer, file: Path) -> None:
    """A rotation of keys loses no request of three replicas under load.

    The key file first has the old and the new key, and then the new one alone. No call with a key of the file fails.
    All replicas refuse the old key within seconds after its removal.
    """
    settings = {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(file), "LOG_LEVEL": "WARNING"}
    replicas = start_server("--replicas", "3", **settings)
    until(lambda: "Ctrl-C stops the replicas" in replicas.output, "all replicas are ready")
    good, late = A, threading.Event()
    statuses: list[int] = []

    def go_on(_: int) -> None:
        while not late.is_set():
            headers = {**HEADERS, "Authorization": f"Bearer {good}"}
            with httpx.Client(verify=False, headers=headers) as client:
                replies = (client.post(f"{replicas.url}/mcp", json=request("tools/list")) for _ in range(5))
                statuses.extend(reply.status_code for reply in replies)

    def until_more_calls(what: str) -> None:
        before = len(statuses)
        until(lambda: len(statuses) > before + 100, what)

    with ThreadPoolExecutor(4) as threads:
        calls = threads.map(go_on, range(4))
        try:
            replace(file, line("a", A) + line("b", B))
            until(lambda: replicas.output.count("API keys reloaded") == 3, "all replicas have reloaded their keys")
            good = B
            until_more_calls("the callers have made 100 calls with the new key")
            replace(file, line("b", B))
            for _ in range(30):  # a new connection may reach any replica
                until(lambda: status(replicas.url, A) == 401, "a replica refuses the old key")
            until_more_calls("the callers have made 100 more calls")
        finally:
            late.set()
        list(calls)
    assert set(statuses) == {200}
    assert replicas.output.count("removed: a") == 3
