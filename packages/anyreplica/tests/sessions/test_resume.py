"""Tests of calls that a client resumes after it has lost the connection, at another replica."""

import signal
import socket
import threading
from pathlib import Path

import httpx
import pytest

from conftest import until
from tests.calls import BOTH, get
from tests.damage import wire
from tests.replicas import Fleet, RedisServer, running
from tests.sessions.client import ADA, start
from tests.sessions.fleets import own_fleet
from tests.sessions.resuming import call, greeted, resumed, sent

pytestmark = pytest.mark.needs("redis")


def test_a_call_goes_on_without_its_connection(full_fleet: Fleet) -> None:
    """A client that lost the connection gets the rest of the events at another replica, and the result."""
    one, two, three = full_fleet.urls
    client = start(full_fleet.url)
    with sent(client, one, "log_and_wait", key="lost") as events:
        first, empty = next(events)
        assert empty == ""
        logged, message = next(events)
        assert "waiting for lost" in message
    assert call(client, one, "fate", key="lost") == "waiting"
    with resumed(client, two, first) as (_, again):
        assert next(again) == (logged, message)
    with resumed(client, three, logged) as (_, rest):
        assert call(client, one, "release", key="lost") == "Released."
        identity, result = next(rest)
        assert '"id":7' in result
        assert "lost" in result
        assert list(rest) == []
    with resumed(client, two, logged) as (_, rest):
        assert list(rest) == [(identity, result)]
    assert "mcp_session_streams 0.0" in get(f"{two}/metrics").text
    assert "mcp_calls_resumed_total" in get(f"{two}/metrics").text


def test_a_stranger_cannot_resume(full_fleet: Fleet) -> None:
    """Another session, and an event id that does not exist, get HTTP 400."""
    client, stranger = start(full_fleet.url), start(full_fleet.url)
    with sent(client, full_fleet.urls[0], "greet") as events:
        first, _ = next(events)
        for who, event in ((stranger, first), (client, "made-up.1"), (client, "made-up"), (client, ".0")):
            with resumed(who, full_fleet.urls[1], event) as (reply, _):
                assert reply.status_code == 400
        greeted(client, full_fleet.urls[1], next(events), events)


def test_only_one_stream_gets_the_events(full_fleet: Fleet) -> None:
    """If a client resumes a call whose connection is still open, the old stream ends."""
    one, two, three = full_fleet.urls
    client = start(full_fleet.url)
    with sent(client, one, "greet") as events:
        first, _ = next(events)
        question = next(events)
        with resumed(client, two, first) as (_, second):
            assert next(second) == question
            assert list(events) == []
            with resumed(client, three, first) as (_, third):
                assert next(third) == question
                assert list(second) == []
                greeted(client, two, question, third)


def test_a_call_that_has_logged_ends_its_old_stream(full_fleet: Fleet) -> None:
    """The first event of a call may come before the replica watches the connection of the call."""
    one, two, _ = full_fleet.urls
    client = start(full_fleet.url)
    with sent(client, one, "log_and_wait", key="moved") as events:
        first, _ = next(events)
        logged = next(events)
        with resumed(client, two, first) as (_, second):
            assert next(second) == logged
            assert list(events) == []
            assert call(client, one, "release", key="moved") == "Released."
            assert "moved" in next(second)[1]


def test_a_cancelled_call_ends_without_its_connection(full_fleet: Fleet) -> None:
    """A lost connection does not cancel a call, and `notifications/cancelled` does."""
    client = start(full_fleet.url)
    with sent(client, full_fleet.urls[0], "log_and_wait", key="both") as events:
        first, _ = next(events)
        next(events)
    assert client.cancel(full_fleet.urls[1], 7).status_code == 202
    until(lambda: call(client, full_fleet.urls[0], "fate", key="both") == "cancelled", "the call is cancelled")
    with resumed(client, full_fleet.urls[2], first) as (_, rest):
        assert "Request cancelled" in list(rest)[-1][1]


@pytest.mark.servers
def test_a_call_without_a_client_ends(tmp_path: Path) -> None:
    """A call that nobody resumes within RESUME_SECONDS is cancelled. While a client follows it, the call goes on."""
    with own_fleet(tmp_path, "waiting", RESUME_SECONDS="1") as (fleet, _):
        client = start(fleet.url)
        one, two = fleet.urls
        firsts = {}
        for key in ("left", "followed"):
            with sent(client, one, "log_and_wait", key=key) as events:
                firsts[key], _ = next(events)
                next(events)
            if key == "followed":
                with resumed(client, two, firsts[key]) as (_, rest):
                    next(rest)
                    until(lambda: call(client, one, "fate", key="left") == "cancelled", "nobody came back")
                    assert call(client, one, "fate", key="followed") == "waiting"


@pytest.mark.servers
def test_waiting_calls_move_on_when_their_replica_drains(tmp_path: Path) -> None:
    """At the drain, the stream of a waiting call ends with a `retry`, and the client goes on at another replica."""
    with own_fleet(tmp_path, "asking", DRAIN_SECONDS="1") as (fleet, _):
        client = start(fleet.url)
        with sent(client, fleet.urls[0], "greet") as events:
            first, _ = next(events)
            question = next(events)
            threading.Thread(target=fleet.replicas[0].process.terminate).start()
            assert list(events) == []
        with resumed(client, fleet.urls[1], first) as (_, rest):
            assert next(rest) == question
            greeted(client, fleet.urls[1], question, rest)


@pytest.mark.servers
def test_a_resumed_stream_moves_on_when_its_replica_drains(tmp_path: Path) -> None:
    """At the drain of the replica that serves a resumed stream, the stream ends. The client resumes the call again."""
    with own_fleet(tmp_path, "asking", 3) as (fleet, _):
        client = start(fleet.url)
        one, two, three = fleet.urls
        with sent(client, one, "greet") as events:
            next(events)
            asked = next(events)
        with resumed(client, two, asked[0]) as (_, rest):
            threading.Thread(target=fleet.replicas[1].process.terminate).start()
            assert list(rest) == []
        with resumed(client, three, asked[0]) as (_, rest):
            greeted(client, one, asked, rest)


@pytest.mark.servers
def test_a_drain_closes_the_connection_of_a_stream(tmp_path: Path) -> None:
    """After the stream has ended, the connection closes at once. Its next request would reach the draining replica."""
    long = {"DRAIN_SECONDS": "600", "KEEP_ALIVE_SECONDS": "600"}
    with running(tmp_path, 1, HANDSHAKE_SESSIONS="full", MCP_COMPONENTS="tests.packs.asking", **long) as fleet:
        client, draining = start(fleet.url), fleet.replicas[0]
        headers = {name.replace("-", "_"): value for name, value in {**client.headed(), "Accept": BOTH}.items()}
        greet = wire.handshake("tools/call", {"name": "greet", "arguments": {}}, 7, **headers)
        with socket.create_connection(("127.0.0.1", draining.port), 60) as connection:
            connection.sendall(greet)
            with connection.makefile("rb") as lines:
                assert any(b"What is your name?" in line for line in lines)
                draining.process.terminate()
                assert b"retry: " in lines.read()  # until the replica closes the connection
        assert draining.process.poll() is None
        draining.process.kill()


@pytest.mark.servers
def test_a_lost_replica_is_told_of(tmp_path: Path) -> None:
    """If the replica of a call is killed, a client that resumes the call gets an error soon, once and for all."""
    with own_fleet(tmp_path, "asking", 3) as (fleet, _):
        client = start(fleet.url)
        with sent(client, fleet.urls[0], "greet") as events:
            first, _ = next(events)
            question = next(events)
            fleet.replicas[0].process.send_signal(signal.SIGSTOP)  # it keeps its connections, and does nothing
        with resumed(client, fleet.urls[1], first) as (_, rest):
            assert next(rest) == question
            identity, error = next(rest)
            assert "The replica that ran this call was lost; send the call again." in error
            assert '"id":7' in error
            assert list(rest) == []
        fleet.replicas[0].process.send_signal(signal.SIGCONT)  # it wakes up, and must not end the call again
        asked = httpx.Response(200, text=question[1]).json()["id"]
        client.answer(fleet.urls[2], asked, ADA)
        for url in fleet.urls:
            with resumed(client, url, first) as (_, rest):
                assert list(rest) == [question, (identity, error)]


@pytest.mark.parametrize(("key", "least", "most"), [("delivered", 0, 10), ("undelivered", 10, 180)])
def test_the_events_of_a_delivered_call_do_not_stay(
    full_fleet: Fleet, asking_redis: RedisServer, key: str, least: int, most: int
) -> None:
    """After the client has its result, the events expire within ten seconds. Those of a lost call stay longer."""
    client, url, ask = start(full_fleet.url), full_fleet.urls[0], asking_redis.ask
    with sent(client, url, "log_and_wait", key=key) as events:
        stream = next(events)[0].partition(".")[0]
        next(events)
        if key == "delivered":
            call(client, url, "release", key=key)
            assert key in list(events)[-1][1]
    if key == "undelivered":
        until(lambda: ask("exists", f"full:call:{stream}:followed") == "1", "the replica has noticed the loss")
        call(client, url, "release", key=key)
    name = f"full:call_events:{stream}"
    until(lambda: '"id":7' in ask("lrange", name, "-1", "-1"), "the log has the result")
    assert least < int(ask("ttl", name)) <= most
