"""Tests of multi-round calls that another replica takes over."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import until
from tests.calls import get
from tests.replicas import Fleet
from tests.sessions.client import AskedClient, start
from tests.sessions.fleets import own_fleet
from tests.sessions.resuming import Event, requested, resumed, sent

pytestmark = [pytest.mark.servers, pytest.mark.needs("redis")]

LOST = "The replica that ran this call was lost; send the call again."


def named(name: str) -> dict[str, Any]:
    """Return the answer of a user who gives a name."""
    return {"action": "accept", "content": {"name": name}}


def answered(client: AskedClient, url: str, events: Iterator[Event], name: str) -> str:
    """Answer the next question at `url`, and return the id of its event."""
    event, question = next(events)
    assert client.answer(url, json.loads(question)["id"], named(name)).status_code == 202, question
    return event


def taken_over(urls: list[str]) -> int:
    """Return the number of calls that these replicas have taken over."""
    pages = [get(f"{url}/metrics").text.splitlines() for url in urls]
    return sum(int(float(line.split()[1])) for page in pages for line in page if line.startswith("mcp_calls_taken_"))


def lost(client: AskedClient, fleet: Fleet, method: str, params: dict[str, Any]) -> tuple[str, str]:
    """Send a request, kill its replica when it has asked the client, and return the ids of the two events."""
    with requested(client, fleet.urls[0], method, params) as events:
        first, _ = next(events)
        question, _ = next(events)
        fleet.replicas[0].process.kill()
    return first, question


def result_of(event: Event) -> str:
    """Return the text of the result in an event."""
    message = json.loads(event[1])
    assert message["id"] == 7, message
    found: str = message["result"]["content"][0]["text"]
    return found


def test_a_call_outlives_two_replicas(tmp_path: Path) -> None:
    """A call of several rounds outlives two replicas, runs each round once and gets answers while none runs it."""
    rounds = tmp_path / "rounds"
    with own_fleet(tmp_path, "asking", 4) as (fleet, _):
        client = start(fleet.url)
        one, two, three, four = fleet.urls
        with sent(client, one, "interview", path=str(rounds)) as events:
            first, _ = next(events)
            answered(client, two, events, "Ada")
            asked = [next(events), next(events)]
            questions = {json.loads(text)["params"]["message"]: json.loads(text)["id"] for _, text in asked}
            fleet.replicas[0].process.kill()
        assert client.answer(three, questions["Your second colour?"], named("green")).status_code == 202
        with resumed(client, two, asked[0][0]) as (_, rest):
            assert next(rest) == asked[1]
            until(lambda: taken_over([two, three, four]) == 1, "a replica has taken over the call")
            fleet.replicas[1].process.kill()
        assert client.answer(four, questions["Your first colour?"], named("blue")).status_code == 202
        with resumed(client, three, asked[1][0]) as (_, rest):
            last = next(rest)
            assert result_of(last) == "Ada, blue, green"
            assert list(rest) == []
        with resumed(client, four, first) as (_, rest):
            assert list(rest)[-1] == last
        assert taken_over([three, four]) == 1
    assert rounds.read_text() == "0 1 3 "


@pytest.mark.parametrize(
    ("method", "params", "names", "text"),
    [
        ("tools/call", {"name": "interview", "arguments": {"path": "rounds"}}, ["Ada", "blue", "green"], "Ada, "),
        ("prompts/get", {"name": "introduction"}, ["Ada"], "I am Ada."),
        ("resources/read", {"uri": "asking://profile"}, ["Ada"], "profile: Ada"),
    ],
)
def test_a_request_that_is_taken_over_is_audited(
    tmp_path: Path, method: str, params: dict[str, Any], names: list[str], text: str
) -> None:
    """A tool, a prompt and a resource are taken over, and the audit log of the new replica has an entry of each."""
    if method == "tools/call":
        params = {**params, "arguments": {"path": str(tmp_path / "rounds")}}
    with own_fleet(tmp_path, "asking", AUDIT_LOG="stdout") as (fleet, _):
        client = start(fleet.url)
        first, _ = lost(client, fleet, method, params)
        with resumed(client, fleet.urls[1], first) as (_, rest):
            for name in names:
                answered(client, fleet.urls[1], rest, name)
            assert text in next(rest)[1]
        name = params.get("name") or params["uri"]
        entry = re.compile(rf'\{{.*"method":"{method}".*"name":"{name}".*"outcome":"ok".*')
        until(lambda: entry.search(fleet.replicas[1].output) is not None, "the audit log has an entry")


def test_two_replicas_never_run_one_round(tmp_path: Path) -> None:
    """A replica that was stalled between rounds wakes up after another one has taken over its call. It does nothing."""
    rounds = tmp_path / "rounds"
    with own_fleet(tmp_path, "asking", 3) as (fleet, _):
        client = start(fleet.url)
        one, two, three = fleet.urls
        stalled = fleet.replicas[0].process
        with sent(client, one, "interview", path=str(rounds)) as events:
            first, _ = next(events)
            question = next(events)
            stalled.send_signal(signal.SIGSTOP)
            with resumed(client, two, first) as (_, rest):
                until(lambda: taken_over([two, three]) == 1, "a replica has taken over the call")
                stalled.send_signal(signal.SIGCONT)
                assert answered(client, three, rest, "Ada") == question[0]
                until(lambda: len(rounds.read_text().split()) == 2, "the second round has run")
                answered(client, three, rest, "blue")
                answered(client, one, rest, "green")
                last = next(rest)
            assert list(events) == []  # the first connection gets nothing more
        assert sorted(result_of(last).split(", ")) == ["Ada", "blue", "green"]
        for url in fleet.urls:
            with resumed(client, url, first) as (_, rest):
                assert [each[0] for each in rest][-1] == last[0]
    assert rounds.read_text() == "0 1 3 "


def test_a_drain_waits_for_no_user(tmp_path: Path) -> None:
    """A draining replica gives its waiting multi-round calls up, and ends before their users answer."""
    rounds = tmp_path / "rounds"
    with own_fleet(tmp_path, "asking", DRAIN_SECONDS="0", SHUTDOWN_GRACE_SECONDS="600") as (fleet, _):
        client = start(fleet.url)
        one, two = fleet.urls
        with sent(client, one, "interview", path=str(rounds)) as events:
            next(events)
            asked = next(events)
            fleet.replicas[0].process.terminate()
            assert fleet.replicas[0].process.wait(60) == 0
            assert list(events) == []
        assert client.answer(two, json.loads(asked[1])["id"], named("Ada")).status_code == 202
        with resumed(client, two, asked[0]) as (_, rest):
            answered(client, two, rest, "blue")
            answered(client, two, rest, "green")
            assert "Ada" in result_of(next(rest))
        log = fleet.replicas[1].log
        until(lambda: "POST /mcp tools/call interview" in log.read_text(), "the replica that ends a call logs it")
    assert rounds.read_text() == "0 1 3 "


def test_a_round_that_had_begun_is_not_repeated(tmp_path: Path) -> None:
    """If the replica is killed while a round runs, the client is told that the call is lost."""
    with own_fleet(tmp_path, "asking") as (fleet, _):
        client = start(fleet.url)
        one, two = fleet.urls
        with sent(client, one, "stuck", path=str(tmp_path / "working")) as events:
            next(events)
            event = answered(client, two, events, "Ada")
            until((tmp_path / "working").exists, "the second round works")
            fleet.replicas[0].process.kill()
        with resumed(client, two, event) as (_, rest):
            assert LOST in next(rest)[1]
        assert taken_over([two]) == 0


def test_a_tool_that_calls_a_multi_round_tool_is_not_repeated(tmp_path: Path) -> None:
    """A lost tool that calls a multi-round tool is not repeated, because its own code has already run."""
    with own_fleet(tmp_path, "asking") as (fleet, _):
        client = start(fleet.url)
        one, two = fleet.urls
        with sent(client, one, "outer", path=str(tmp_path / "good")) as events:
            next(events)
            for name in ("Ada", "blue", "green"):
                answered(client, two, events, name)
            assert "Ada" in result_of(next(events))
        outer = {"name": "outer", "arguments": {"path": str(tmp_path / "lost")}}
        _, event = lost(client, fleet, "tools/call", outer)
        with resumed(client, two, event) as (_, rest):
            assert LOST in next(rest)[1]
    assert (tmp_path / "good").read_text() == "outer 0 1 3 "
    assert (tmp_path / "lost").read_text() == "outer 0 "


def test_a_round_that_is_too_large_is_not_taken_over(tmp_path: Path) -> None:
    """A call with large arguments works, but it ends with an error if its replica is lost. The log says so."""
    with own_fleet(tmp_path, "asking") as (fleet, _):
        client = start(fleet.url)
        large = {"name": "introduction", "_meta": {"padding": "x" * 300_000}}
        with requested(client, fleet.urls[0], "prompts/get", large) as events:
            next(events)
            answered(client, fleet.urls[1], events, "Ada")
            assert "I am Ada." in next(events)[1]
        _, event = lost(client, fleet, "prompts/get", large)
        with resumed(client, fleet.urls[1], event) as (_, rest):
            assert LOST in next(rest)[1]
        assert "A round is too large for another replica to take it over" in fleet.replicas[0].log.read_text()


def test_the_taken_call_can_be_cancelled(tmp_path: Path) -> None:
    """`notifications/cancelled` at any replica ends a call that another replica has taken over."""
    with own_fleet(tmp_path, "asking", 3) as (fleet, _):
        client = start(fleet.url)
        interview = {"name": "interview", "arguments": {"path": str(tmp_path / "rounds")}}
        first, _ = lost(client, fleet, "tools/call", interview)
        with resumed(client, fleet.urls[1], first) as (_, rest):
            next(rest)
            until(lambda: taken_over(fleet.urls[1:]) == 1, "a replica has taken over the call")
            assert client.cancel(fleet.urls[2], 7).status_code == 202
            assert "Request cancelled" in list(rest)[-1][1]
