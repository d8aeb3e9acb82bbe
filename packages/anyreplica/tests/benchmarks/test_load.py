"""Tests of the load of a benchmark, against servers that send prepared answers."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import orjson
import pytest

from benchmarks.load import Load, LoadError
from benchmarks.reply import Reply, UnreadableReply, parse
from benchmarks.sample import Sample
from benchmarks.scenarios import ECHO
from tests.loadtest.fake import Fake, fake

SCENARIO = replace(ECHO, expected={"id": 1})
RIGHT = b'{"id":1}'


def _http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ndate: now\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _answering(*answers: bytes) -> AbstractAsyncContextManager[Fake]:
    """Return a server that sends these answers one after the other, and then repeats the last one."""

    async def answer(_: Fake, number: int, __: object) -> bytes:
        return answers[min(number, len(answers)) - 1]

    return fake(answer)


async def _sample(*answers: bytes, checked: int = 1, connections: int = 1) -> Sample:
    async with _answering(*answers) as server, Load(server.port, SCENARIO, connections) as load:
        await load.run_replies(checked, within=5)
        return await load.measure(0.2, lambda: 0.5)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (_http(b'{"id":2}'), "wrong reply: reply.id is 2, not 1"),
        (_http(b"hello"), "wrong reply: no JSON: b'hello'"),
        (_http(RIGHT, "503 Busy"), "wrong reply: HTTP 503: '{\"id\":1}'"),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata:\r\n",
            "no Content-Length (an event stream?)",
        ),
        (b"", "the server closed a connection"),
    ],
)
def test_the_warm_up_ends_with_a_wrong_reply(answer: bytes, says: str) -> None:
    """A wrong reply in the warm-up ends the load with a reason."""
    with pytest.raises(LoadError) as caught:
        asyncio.run(_sample(_http(RIGHT), answer, checked=3))
    assert says in str(caught.value)


def test_wrong_replies_are_counted_while_measuring() -> None:
    """During the measurement, a reply with a new body is compared, and only a wrong reply counts as an error."""
    other = orjson.dumps({"id": 1, "more": [1, 2]})
    sample = asyncio.run(_sample(_http(RIGHT), _http(RIGHT), _http(other), _http(RIGHT, "500 Oh"), _http(RIGHT)))
    assert (sample.errors, sample.first_error) == (1, "wrong reply: HTTP 500: '{\"id\":1}'")


def test_a_reply_in_pieces() -> None:
    """A reply is complete with its last byte, and not before."""
    whole = _http(RIGHT)
    assert all(parse(whole[:length]) is None for length in range(len(whole)))
    assert parse(whole) == Reply(b"200", RIGHT)
    with pytest.raises(UnreadableReply, match="more than one reply"):
        parse(whole * 2)
    with pytest.raises(UnreadableReply, match="no Content-Length"):
        parse(b"HTTP/1.1 200 OK\r\nx-content-length: 5\r\n\r\n12345")


def test_a_sample() -> None:
    """A sample has µs per request, requests per second, and exact percentiles in ms."""
    times = [milliseconds * 1_000_000 for milliseconds in range(100, 0, -1)]
    sample = Sample.of(times, errors=0, first_error="", seconds=4, cpu_seconds=0.01)
    assert (sample.requests, sample.p50_ms, sample.p99_ms) == (100, 50, 99)
    assert sample.cpu_us == pytest.approx(100)
    assert sample.per_second == 25
