"""Anybody can name a document of a client (CIMD) that is slow to fetch. It stops nobody else."""

import asyncio
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from anyreplica.features.login import documents
from anyreplica.features.login.documents import FETCHES_OF_ADDRESS, ClientDocuments
from anyreplica.features.login.limits import LoginRequest, answering
from anyreplica.http.compression import compressed
from anyreplica.mcp.compat.oauth_proxy import DocumentUnavailable
from conftest import until
from tests.auth.login.browser import from_address
from tests.auth.login.replica import GOOD, log_in, served
from tests.calls import HEADERS, request


@pytest.mark.servers
def test_slow_names_stop_neither_logins_nor_compressed_replies(tmp_path: Path) -> None:
    """110 ids of clients whose names resolve slowly get errors; another client logs in and gets a large reply."""
    lookups = tmp_path / "lookups"
    lookups.touch()
    replies: list[httpx.Response] = []
    with served(tmp_path, LOOKUPS=str(lookups)) as server:

        def ask(number: int) -> None:
            query = {"client_id": f"https://name-{number}.slow.example/client.json", "response_type": "code"}
            with httpx.Client(timeout=60) as http:
                replies.append(http.get(f"{server.url}/authorize", params=query))

        threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(110)]
        for thread in threads:
            thread.start()
        until(lambda: len(lookups.read_text().splitlines()) >= FETCHES_OF_ADDRESS, "slow names are being resolved")
        until(lambda: len(replies) >= 5, "the replica refuses some of the slow ids")
        token = log_in(server.url)
        with from_address(GOOD) as http:
            headers = {**HEADERS, "Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"}
            asked = request("tools/call", {"name": "large", "arguments": {}})
            reply = http.post(f"{server.url}/mcp", json=asked, headers=headers)
        assert reply.headers["content-encoding"] == "gzip", reply.text
        assert reply.json()["result"]["content"][0]["text"].startswith("large large")
        assert len(lookups.read_text().splitlines()) == FETCHES_OF_ADDRESS
        for thread in threads:
            thread.join(30)
    assert Counter(each.status_code for each in replies) == {503: 110}
    texts = Counter(each.json()["error_description"] for each in replies)
    assert texts["The document of the client could not be fetched within 5 s; retry later."] == FETCHES_OF_ADDRESS
    assert all("retry-after" in each.headers for each in replies)


@pytest.mark.anyio
async def test_a_lookup_keeps_its_place_until_its_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch ends after its time limit, but its lookup still counts for its address. Another address has places."""
    answer = threading.Event()

    def resolve(name: str, *_: Any) -> Any:
        if name == "slow":
            answer.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(documents, "FETCH_SECONDS", 0.2)
    limits = ClientDocuments()

    async def fetch(address: str, name: str) -> Any:
        asked = LoginRequest(address)
        with answering(asked):
            try:
                async with limits.fetching():
                    return await limits.look_up(name, 443)
            except DocumentUnavailable:
                assert asked.refusal is not None
                return asked.refusal

    slow = await asyncio.gather(*(fetch("bad", "slow") for _ in range(FETCHES_OF_ADDRESS)))
    assert {each.status for each in slow} == {503}
    refused = await fetch("bad", "quick")
    assert "name lookups for documents in progress, the limit of one address" in refused.message
    assert (await fetch("good", "quick"))[0][4] == ("192.0.2.1", 443)
    answer.set()
    async with asyncio.timeout(20):
        while limits._lookups._places.shares.used:  # noqa: ASYNC110  # a thread of the lookup ends
            await asyncio.sleep(0.01)
    assert (await fetch("bad", "quick"))[0][4] == ("192.0.2.1", 443)


@pytest.mark.anyio
async def test_all_addresses_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many addresses together never wait for more lookups than there are threads."""
    answer = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: answer.wait(30) and [])
    limits = ClientDocuments()

    async def look_up(address: str) -> str:
        with answering(LoginRequest(address)):
            try:
                await limits.look_up("slow", 443)
            except DocumentUnavailable as error:
                return str(error)
        return ""

    asked = [asyncio.create_task(look_up(str(number))) for number in range(documents.MOST_FETCHES)]
    await asyncio.sleep(0)
    assert "16 name lookups for documents of clients" in await look_up("one more")
    answer.set()
    assert await asyncio.gather(*asked) == [""] * documents.MOST_FETCHES


@pytest.mark.anyio
async def test_compression_waits_for_no_other_thread() -> None:
    """A reply is compressed while all of asyncio's own threads are busy."""
    loop, end = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy = loop.run_in_executor(None, end.wait, 30)
    try:
        assert (await asyncio.wait_for(compressed(b"x" * 100_000), 10))[:2] == b"\x1f\x8b"
    finally:
        end.set()
        await busy
