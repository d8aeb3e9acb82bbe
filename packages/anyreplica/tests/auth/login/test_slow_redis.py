"""Tests of logins with a Redis that answers late: a login waits for it, and the check of a call's token does not."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from anyreplica.features.login import shared as shared_logins
from anyreplica.features.login.shared import MOST_WAITING, LoginUnavailable, SharedLogins, noting_outages
from anyreplica.shared.lost_redis import is_patient
from conftest import Server
from tests.auth.login.flow import OAuthClient
from tests.auth.login.replica import log_in, served
from tests.calls import HEADERS, request
from tests.replicas import RedisServer
from tests.sessions.test_slow_redis import SECONDS, SlowProxy


@pytest.fixture
def slow(redis_server: RedisServer) -> Iterator[SlowProxy]:
    """A proxy in front of the Redis of a test. It forwards all data at once, until the test makes it slow."""
    with contextlib.closing(SlowProxy(redis_server.port)) as proxy:
        yield proxy


def begun(url: str, client: OAuthClient) -> httpx.Response:
    """Begin a login: the first step stores the transaction and redirects the user to the page of consent."""
    return httpx.get(client.authorization(url), timeout=100)


def called(server: Server, token: str) -> tuple[int, float]:
    """Return the status of a call with a token, and its time in seconds."""
    began = time.monotonic()
    headers = {**HEADERS, "Authorization": f"Bearer {token}"}
    reply = httpx.post(f"{server.url}/mcp", json=request("tools/list"), headers=headers, timeout=100)
    return reply.status_code, time.monotonic() - began


@pytest.mark.servers
@pytest.mark.needs("redis")
def test_a_login_waits_for_a_slow_redis(tmp_path: Path, slow: SlowProxy) -> None:
    """Redis answers after 2.5 s: a login begins, and a call does not wait for the check of its token."""
    with served(tmp_path, REDIS_URL=slow.url, LOGIN_CACHE_SECONDS="0") as server:
        token, client = log_in(server.url), OAuthClient(server.url)
        assert client.register(server.url).status_code == 201
        slow.seconds = SECONDS
        status, seconds = called(server, token)
        assert (status, seconds < 2) == (503, True), seconds
        began = begun(server.url, client)
        assert (began.status_code, "/consent?" in began.headers.get("location", "")) == (302, True), began.text
        status, seconds = called(server, token)
        assert (status, seconds < 2) == (503, True), seconds


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.needs("redis")
def test_a_whole_login_with_a_slow_redis(tmp_path: Path, slow: SlowProxy) -> None:
    """Each step of a login waits for Redis, from the registration to the token."""
    with served(tmp_path, REDIS_URL=slow.url) as server:
        slow.seconds = 1.2
        token = log_in(server.url)
        slow.seconds = 0
        assert called(server, token)[0] == 200


@pytest.mark.servers
@pytest.mark.needs("redis")
def test_logins_do_not_wait_for_a_stopped_redis_for_ever(tmp_path: Path, redis_server: RedisServer) -> None:
    """Redis is stopped while 60 logins begin: each gets 503 after some seconds, most at once. Later logins work."""
    with served(tmp_path, REDIS_URL=redis_server.url) as server:
        client = OAuthClient(server.url)
        assert client.register(server.url).status_code == 201

        def timed(_: int) -> tuple[int, float]:
            began = time.monotonic()
            return begun(server.url, client).status_code, time.monotonic() - began

        with ThreadPoolExecutor(60) as threads:
            before = list(threads.map(timed, range(60)))
            redis_server.hang()
            try:
                found = list(threads.map(timed, range(60)))
            finally:
                redis_server.go_on()
        assert {status for status, _ in before} == {302}
        usual = max(seconds for _, seconds in before)
        assert {status for status, _ in found} == {503}
        assert max(seconds for _, seconds in found) < 20 + usual
        waited = sum(seconds > 4 + usual for _, seconds in found)
        assert waited <= MOST_WAITING // 2, "one address has half of the places"
        assert log_in(server.url)


@pytest.mark.anyio
async def test_a_limited_number_of_commands_waits() -> None:
    """At most half of the patient commands are of one address. Further commands are quick."""
    shared, done, patient = SharedLogins(Mock(), "name"), asyncio.Event(), dict[str, int]()

    async def command(address: str) -> None:
        patient[address] = patient.get(address, 0) + is_patient()
        await done.wait()

    async def send(address: str) -> None:
        with noting_outages(address):
            await shared.reach(lambda: command(address))

    async with asyncio.TaskGroup() as tasks:
        for address in ("bad", "good", "third"):
            for _ in range(50):
                tasks.create_task(send(address))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert patient == {"bad": MOST_WAITING // 2, "good": MOST_WAITING // 2, "third": 0}
        done.set()
    await send("third")
    assert patient["third"] == 1, "the places are free again"


@pytest.mark.anyio
@pytest.mark.parametrize("repeatable", [True, False])
async def test_a_command_waits_for_a_limited_time(monkeypatch: pytest.MonkeyPatch, repeatable: bool) -> None:
    """A command without an answer fails after some seconds, and then all other commands of its request fail at once."""
    monkeypatch.setattr(shared_logins, "PERSIST_SECONDS", 0.3)
    shared, sent = SharedLogins(Mock(), "name"), list[Any]()

    async def command() -> None:
        sent.append(is_patient())
        await asyncio.sleep(60)

    with noting_outages("address") as outage:
        for _ in range(3):
            with pytest.raises(LoginUnavailable):
                await shared.reach(command, repeatable=repeatable)
    assert outage.noted
    assert sent == [True]


@pytest.mark.anyio
async def test_a_command_outside_of_a_login_is_quick() -> None:
    """The check of a token in a call notes outages, but it names no address."""
    shared = SharedLogins(Mock(), "name")

    async def command() -> bool:
        return is_patient()

    assert not await shared.reach(command)
    with noting_outages():
        assert not await shared.reach(command)
    with noting_outages("address") as outage:
        assert await shared.reach(command)
        outage.seconds = 0.0  # it has waited long enough
        assert not await shared.reach(command)
