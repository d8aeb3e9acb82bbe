"""Limits of the memory for calls whose clients leave, wait, or answer with much data, with and without Redis."""

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import until
from tests.attacks.conftest import Attack, Attacked
from tests.calls import BOTH, ENVELOPE, HEADERS, get, legacy, post, request
from tests.damage import wire
from tests.replicas import RedisServer
from tests.sessions.client import ADA, EVERYTHING, VERSION, AskedClient, said, start
from tests.sessions.resuming import resumed, sent

pytestmark = [pytest.mark.alone, pytest.mark.needs("redis")]

TEXT = "x" * 390_000
PACKS = "server,tests.packs.asking,tests.packs.heavy,tests.packs.state"
HELLO = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
GROWTH = 130
"""Maximum growth of a replica's memory, in MB: RESUME_BYTES for one caller, and what Python keeps for later."""
REDIS = 60
"""Maximum memory of Redis, in MB."""


@contextlib.contextmanager
def attacked(attack: Attack, folder: Path, *, with_redis: bool, **changed: str) -> Iterator[tuple[Attacked, Any]]:
    """Run a replica with sessions. Yields also a function that returns the memory of Redis in MB (0 without it)."""
    settings = {"HANDSHAKE_SESSIONS": "full", "MCP_COMPONENTS": PACKS, "TRUSTED_PROXIES": "127.0.0.1"}
    settings |= {"MAX_REQUESTS_PER_CONNECTION": "0", "SHUTDOWN_GRACE_SECONDS": "1", **changed}
    if not with_redis:
        yield attack(**settings), lambda: 0.0
        return
    with RedisServer(folder / "redis.log") as redis:
        used = r"(?m)^used_memory:(\d+)"
        memory = lambda: int(re.findall(used, redis.ask("info", "memory"))[0]) / 1e6  # noqa: E731
        yield attack(REDIS_URL=redis.url, **settings), memory


def clients(replica: Attacked) -> Iterator[AskedClient]:
    """Return an attacker and a good client, from two addresses."""
    return (start(replica.server.url, EVERYTHING, **{"X-Forwarded-For": f"192.0.2.{number}"}) for number in (1, 2))


def headers_of(client: AskedClient) -> dict[str, str]:
    """Return the headers of a request in the client's session, as `wire` gets them."""
    return {name.replace("-", "_"): value for name, value in {**client.headed(), "Accept": BOTH}.items()}


def call_of(client: AskedClient, tool: str, **arguments: Any) -> bytes:
    """Return the bytes of a call, with the id 7."""
    return wire.handshake("tools/call", {"name": tool, "arguments": arguments}, 7, **headers_of(client))


def asked(replica: Attacked, stack: contextlib.ExitStack, call: bytes) -> dict[str, Any]:
    """Send a call on a connection that stays open until the stack ends, and return the first JSON of the reply."""
    connection = stack.enter_context(replica.connect())
    connection.sendall(call)
    return first_message(connection)


def first_message(connection: socket.socket) -> dict[str, Any]:
    """Return the first JSON of a reply, which is an event stream or one JSON object."""
    with connection.makefile("rb") as reply:
        length = 0
        while line := reply.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        lines = [reply.read(length)] if length else reply
        found = next(line for line in lines if line.startswith((b"data: {", b"{")))
        message: dict[str, Any] = json.loads(found.removeprefix(b"data: "))
        return message


def is_idle(replica: Attacked) -> bool:
    """Return whether no request is in flight, except for one of the well-behaved client."""
    text = get(f"{replica.server.url}/metrics").text
    return "mcp_requests_in_flight 0.0" in text or "mcp_requests_in_flight 1.0" in text


@pytest.mark.parametrize("with_redis", [False, True])
def test_calls_whose_clients_hang_up(attack: Attack, tmp_path: Path, with_redis: bool) -> None:
    """100 calls with results of 8 MB, whose clients hang up, leave little memory. Other callers can resume calls."""
    with attacked(attack, tmp_path, with_redis=with_redis) as (replica, redis):
        client, good = clients(replica)
        before, most = replica.rss, 0.0
        with replica.beside_good_client(longest=1.5):
            for _ in range(20):
                for _ in range(5):
                    with replica.connect() as connection:
                        connection.sendall(call_of(client, "log_and_repeat", text=TEXT, times=10))
                        assert first_message(connection)["method"] == "notifications/message"
                until(lambda: is_idle(replica), "the calls have ended")
                most = max(most, redis())
            with sent(good, replica.server.url, "log_and_repeat", text="mine") as events:
                first, _ = next(events)
            with resumed(good, replica.server.url, first) as (reply, rest):
                assert reply.status_code == 200
                assert "mine" in list(rest)[-1][1]
        print(f"{replica.rss - before:.0f} MB more in the replica, {most:.0f} MB in Redis.")
        assert replica.rss < before + GROWTH
        assert most < REDIS


@pytest.mark.parametrize("with_redis", [False, True])
def test_calls_of_many_addresses_whose_clients_hang_up(attack: Attack, tmp_path: Path, with_redis: bool) -> None:
    """Results of 1.6 MB fit into a call's limit, so the limits of the callers and of the replica hold them back."""
    with attacked(attack, tmp_path, with_redis=with_redis) as (replica, redis):
        url, before, most = replica.server.url, replica.rss, 0.0
        good = start(url, EVERYTHING, **{"X-Forwarded-For": "192.0.2.200"})
        with replica.beside_good_client(longest=1.5):
            for number in range(1, 13):
                client = start(url, EVERYTHING, **{"X-Forwarded-For": f"192.0.2.{number}"})
                for _ in range(3):
                    for _ in range(5):
                        with replica.connect() as connection:
                            connection.sendall(call_of(client, "log_and_repeat", text=TEXT, times=4))
                            first_message(connection)
                    until(lambda: is_idle(replica), "the calls have ended")
                    most = max(most, redis())
            with sent(good, url, "log_and_repeat", text="mine") as events:
                assert "mine" in list(events)[-1][1], "a connected client still gets everything"
        page = get(f"{url}/metrics").text
        kept, refused = (
            float(re.findall(rf"(?m)^{name} (\S+)", page)[0])
            for name in ("mcp_calls_kept_bytes", "mcp_calls_not_kept_total")
        )
        print(f"{kept / 1e6:.0f} MB kept, {refused:.0f} refused.")
        print(f"{replica.rss - before:.0f} MB more in the replica, {most:.0f} MB in Redis.")
        assert 16 << 20 < kept <= 32 << 20, "more than the share of one caller, at most the limit of the replica"
        assert refused > 100
        assert replica.rss < before + GROWTH
        assert most < REDIS


@pytest.mark.parametrize("with_redis", [False, True])
def test_large_answers(attack: Attack, tmp_path: Path, with_redis: bool) -> None:
    """60 answers of 3.9 MB reach their calls, and neither the answers nor the results stay."""
    with attacked(attack, tmp_path, with_redis=with_redis) as (replica, redis):
        client = start(replica.server.url)
        answer = {"action": "accept", "content": {"value": TEXT * 10}}
        before, most = replica.rss, 0.0
        with replica.beside_good_client(longest=1.5):
            for _ in range(60):
                with client.calling(replica.server.url, "greet") as messages:
                    question = next(messages)
                    assert client.answer(replica.server.url, question["id"], answer).status_code == 202
                    assert len(said(next(messages))) > len(TEXT) * 10
                most = max(most, redis())
        print(f"{replica.rss - before:.0f} MB more in the replica, {most:.0f} MB in Redis.")
        assert replica.rss < before + GROWTH
        assert most < REDIS


def test_waiting_calls_with_much_memory(attack: Attack, tmp_path: Path) -> None:
    """Calls that wait for their client leave the memory of requests to others, and one caller gets a share only."""
    with attacked(attack, tmp_path, with_redis=False) as (replica, _), contextlib.ExitStack() as stack:
        url = replica.server.url
        client, good = clients(replica)
        with replica.beside_good_client():
            call = call_of(client, "ask_about", text=TEXT * 7)
            found = [asked(replica, stack, call) for _ in range(23)]
            waiting = [each for each in found if each.get("method") == "elicitation/create"]
            refused = [each for each in found if "result" in each]
            assert len(waiting) >= 3
            assert len(waiting) + len(refused) == 23
            assert "a quarter of MAX_BUFFERED_BYTES" in said(refused[0])
            assert "16777216 bytes" in said(refused[0])
            reply = good.call([url], "ask_about", lambda _: ADA, text=TEXT)
            assert said(reply) == f"Ada knows {len(TEXT)} characters."
            for each in waiting:
                assert client.answer(url, each["id"], ADA).status_code == 202
        until(lambda: is_idle(replica), "the calls have ended")
        assert said(client.call([url], "ask_about", lambda _: ADA, text=TEXT * 7)).startswith("Ada knows")


def test_answers_of_one_caller_have_a_share(attack: Attack, tmp_path: Path) -> None:
    """A call that keeps a large answer while it waits for another one uses the share of its caller."""
    with attacked(attack, tmp_path, with_redis=True) as (replica, redis), contextlib.ExitStack() as stack:
        url = replica.server.url
        client = start(url)
        answer = {"action": "accept", "content": {"value": TEXT * 10}}
        ends = []
        with replica.beside_good_client():
            for _ in range(8):
                messages = stack.enter_context(client.calling(url, "two_at_once"))
                assert client.answer(url, next(messages)["id"], answer).status_code == 202
                ends.append(messages)
            refused = next(ends[-1])  # the second question; the error follows
            while "result" not in refused:
                refused = next(ends[-1])
        assert "a quarter of MAX_BUFFERED_BYTES" in said(refused)
        assert redis() < REDIS


def test_waiting_calls_of_one_address(attack: Attack, tmp_path: Path) -> None:
    """One caller may have half of MAX_CLIENT_REQUESTS. The tools of another caller can still ask."""
    settings = {"MAX_CLIENT_REQUESTS": "100"}
    with attacked(attack, tmp_path, with_redis=False, **settings) as (replica, _), contextlib.ExitStack() as stack:
        url = replica.server.url
        client, good = clients(replica)
        with replica.beside_good_client():
            found = [asked(replica, stack, call_of(client, "greet")) for _ in range(100)]
            refused = [each for each in found if "result" in each]
            assert len(refused) == 50
            assert "50 requests to clients, half of MAX_CLIENT_REQUESTS" in said(refused[0])
            assert said(good.call([url], "greet", lambda _: ADA)) == "Hello, Ada!"


@pytest.mark.parametrize("with_redis", [False, True])
def test_resumed_streams_that_nobody_reads(attack: Attack, tmp_path: Path, with_redis: bool) -> None:
    """Many clients that resume a call with a large result, and read nothing, do not fill the memory."""
    with attacked(attack, tmp_path, with_redis=with_redis) as (replica, _), contextlib.ExitStack() as stack:
        url = replica.server.url
        client, good = clients(replica)
        firsts = []
        for _ in range(5):
            with sent(client, url, "log_and_repeat", text=TEXT, times=4) as events:
                firsts.append(next(events)[0])
        until(lambda: is_idle(replica), "the calls have ended")
        with replica.beside_good_client():
            for number in range(200):
                connection = stack.enter_context(replica.connect(2048))
                headers = {**headers_of(client), "Last_Event_ID": firsts[number % 5]}
                connection.sendall(wire.http("GET", "/mcp", b"", **headers))
            for _ in range(20):
                assert said(good.call([url], "greet", lambda _: ADA)) == "Hello, Ada!"
        print(f"{replica.peak:.0f} MB at most")


def test_a_call_beyond_its_budget(attack: Attack, tmp_path: Path) -> None:
    """A connected client gets all events of a call beyond its budget. A client that resumes it too early gets 400."""
    with attacked(attack, tmp_path, with_redis=True, RESUME_BYTES="1048576") as (replica, _):
        client, url = start(replica.server.url), replica.server.url
        with sent(client, url, "log_often", text="y" * 1000, times=400) as events:
            found = list(events)
        assert len(found) == 402  # with the empty event at the start
        assert "logged" in found[-1][1]
        for place, status in ((0, 400), (100, 400), (390, 200), (401, 200)):
            with resumed(client, url, found[place][0]) as (reply, rest):
                assert reply.status_code == status
                if status == 200:
                    assert list(rest) == found[place + 1 :]
                else:
                    text = reply.read().decode()
                    assert "131072 bytes for one call" in text
                    assert "RESUME_BYTES" in text
        with sent(client, url, "log_and_repeat", text=TEXT) as events:
            found = list(events)
            assert TEXT in found[-1][1]
        with resumed(client, url, found[0][0]) as (_, rest):
            error = list(rest)[-1][1]
            assert "was not kept for a client that resumes the call" in error
            assert '"id":7' in error


def in_session(client: AskedClient, url: str, method: str, **params: Any) -> Any:
    """Send a request in a session, and return the response."""
    return legacy(url, method, params, **client.headed()).json()


@pytest.mark.parametrize("with_redis", [False, True])
def test_records_of_sessions_of_one_address(attack: Attack, tmp_path: Path, with_redis: bool) -> None:
    """One caller cannot fill the store with the records of many sessions, nor push out the record of another."""
    with attacked(attack, tmp_path, with_redis=with_redis, RESUME_BYTES="1048576") as (replica, redis):
        url = replica.server.url
        _, good = clients(replica)
        assert in_session(good, url, "logging/setLevel", level="error")["result"] == {}
        before, errors = redis(), dict[str, int]()
        with replica.beside_good_client():
            for number in range(1, 4):
                for _ in range(10):
                    client = start(url, EVERYTHING, **{"X-Forwarded-For": f"198.51.100.{number}"})
                    for each in range(30):
                        uri = f"a://{each}{'x' * 1000}"
                        error = in_session(client, url, "resources/subscribe", uri=uri).get("error")
                        errors[error["message"] if error else ""] = 1
        grown = redis() - before
        print(f"{grown:.2f} MB more in Redis.")
        assert any("the limit of one caller is 262144 bytes (a quarter of RESUME_BYTES)" in each for each in errors)
        assert grown < 1
        assert in_session(good, url, "resources/subscribe", uri="a://mine")["result"] == {}
        with good.calling(url, "log_and_repeat", {"text": "mine"}) as seen:
            assert len(list(seen)) == 1, "the session still has its level"


@pytest.mark.parametrize("with_redis", [False, True])
def test_ended_sessions_of_one_address(attack: Attack, tmp_path: Path, with_redis: bool) -> None:
    """One caller ends a limited number of sessions. The ended session of another caller stays ended."""
    with attacked(attack, tmp_path, with_redis=with_redis, RESUME_BYTES="1048576") as (replica, redis):
        url = replica.server.url
        client, good = clients(replica)
        assert good.ended(url).status_code == 204
        before, most = redis(), 262144 // 192
        with replica.beside_good_client(), httpx.Client(timeout=60) as http:
            statuses = []
            for _ in range(most + 20):
                begun = http.post(
                    f"{url}/mcp", json=request("initialize", HELLO), headers={**HEADERS, **client.headers}
                )
                headers = {**client.headed(), "Mcp-Session-Id": begun.headers["Mcp-Session-Id"]}
                reply = http.delete(f"{url}/mcp", headers=headers)
                statuses.append(reply.status_code)
        assert statuses == [204] * most + [503] * 20
        assert "your ended sessions have reached their limit of 262144 bytes (a quarter of RESUME_BYTES)" in reply.text
        assert redis() - before < 1
        assert good.ended(url).status_code == 404


def test_tasks_with_large_results(attack: Attack) -> None:
    """100 tasks with results of 3.9 MB leave little memory. The last ones get an error that names the limit."""
    replica = attack(MCP_COMPONENTS=f"{PACKS},tests.packs.as_task", SHUTDOWN_GRACE_SECONDS="1")
    url, before = replica.server.url, replica.rss
    extensions = {"io.modelcontextprotocol/tasks": dict[str, Any]()}
    meta = {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions}}
    headers = {"Accept": BOTH, "MCP-Protocol-Version": "2026-07-28"}

    def ask(method: str, target: str, **params: Any) -> Any:
        named = {**headers, "Mcp-Method": method, "Mcp-Name": target}
        return post(url, json=request(method, {**params, "_meta": meta}), headers=named).json()["result"]

    def ended(task: str) -> bool:
        found.append(ask("tasks/get", task, taskId=task))
        return bool(found[-1]["status"] != "working")

    found: list[Any] = []
    with replica.beside_good_client(longest=1.5):
        for _ in range(100):
            arguments = {"text": TEXT, "times": 10}
            result = ask("tools/call", "repeat_as_task", name="repeat_as_task", arguments=arguments)
            if task := result.get("taskId"):
                until(lambda task=task: ended(task), "the task has ended")  # type: ignore[misc]
            else:
                found.append({"result": result})
    assert "JOBS_MAX_TASK_BYTES" in found[-1]["result"]["content"][0]["text"]
    print(f"{replica.rss - before:.0f} MB more in the replica.")
    assert replica.rss < before + GROWTH
