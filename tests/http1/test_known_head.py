"""A head that is known must be read as the parser would read it, and a doubtful one by the parser."""

import asyncio
from typing import Any

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from server.exchange.body import Body
from server.exchange.in_flight import InFlight
from server.http1.known_head import KnownHead, learn
from tests.http1.connections import Connections

HEAD = b"POST /mcp?a=b HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\nAccept: text/plain\r\n\r\n"
VARIED = [b"Traceparent: 00-1-2", b"Connection: keep-alive", b"X: y", b"x: z"]


def request(body: bytes, *headers: bytes) -> bytes:
    """A request in one piece."""
    return HEAD % (b"".join(header + b"\r\n" for header in headers), len(body)) + body


class Read:
    """What the parser reads in some bytes: messages, each with its URL, headers and body; whether it understood."""

    def __init__(self, data: bytes) -> None:
        self.messages: list[list[Any]] = []
        self.ended = 0
        self.parser = httptools.HttpRequestParser(self)
        try:
            self.parser.feed_data(data)
            self.understood = True
        except httptools.HttpParserError:
            self.understood = False

    def on_message_begin(self) -> None:
        """A message begins."""
        self.messages.append([b"", [], b""])

    def on_url(self, url: bytes) -> None:
        """A part of its URL."""
        self.messages[-1][0] += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self.messages[-1][1].append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        self.messages[-1][2] += body

    def on_message_complete(self) -> None:
        """It is complete."""
        self.ended += 1


def known(data: bytes, most: int = 10_000) -> KnownHead | None:
    """What is remembered of a request."""
    (_, headers, body), *_ = Read(data).messages
    scope: Any = {"type": "http", "path": "/mcp", "headers": headers, "state": {}}
    return learn(data, scope, body, most)


PIECES = [
    b"",
    b"\r\n",
    b"\r\n\r\n",
    b"\r",
    b" ",
    b"0",
    b"5",
    b"12",
    b"+",
    b"-",
    b"x",
    b": ",
    b"\t",
    b"\x00",
    b"\xe4",
    b"close",
    b"Upgrade",
    b"Content-Length: 3\r\n",
    b"Connection: close\r\n",
    b"Transfer-Encoding: chunked\r\n",
    "Content-Length: ²\r\n".encode(),
    request(b"hello"),
]


@given(
    body=st.binary(max_size=30) | st.sampled_from(PIECES),
    values=st.lists(st.binary(max_size=9) | st.sampled_from(PIECES), max_size=4),
    changes=st.lists(
        st.tuples(st.integers(0, 200), st.integers(0, 12), st.binary(max_size=5) | st.sampled_from(PIECES)), max_size=3
    ),
)
@example(body=b"", values=[], changes=[])
@example(body=b"{}", values=[], changes=[(0, 0, b"\r\n")])
@example(body=b"", values=[b"a", b"Upgrade, close"], changes=[])
def test_what_is_taken_for_known_is_what_the_parser_reads(
    body: bytes, values: list[bytes], changes: list[tuple[int, int, bytes]]
) -> None:
    """One message, with these headers, and this body, whatever has been changed in it."""
    head = known(request(b"first", *VARIED))
    assert head is not None
    varied = [line.partition(b" ")[0] + b" " + value for line, value in zip(VARIED, values, strict=False)]
    data = request(body, *varied, *VARIED[len(varied) :])
    for place, length, piece in changes:
        data = data[:place] + piece + data[place + length :]
    taken = head.read(data)
    if not changes and not values:
        assert taken is not None
        assert taken[1] == body
    if taken is None:
        return
    read = Read(data)
    assert read.understood
    assert read.ended == 1
    assert read.parser.should_keep_alive()
    ((_, headers, whole),) = read.messages
    assert taken == (headers, whole)


@pytest.mark.parametrize("value", [b"b", b"a longer one", b"!~"])
def test_a_plain_value_may_differ(value: bytes) -> None:
    """Each request has its own, where it is traced."""
    head = known(request(b"first", *VARIED))
    assert head is not None
    taken = head.read(request(b"{}", b"Traceparent: " + value, *VARIED[1:]))
    assert taken is not None
    assert taken[0][1] == (b"traceparent", value)
    assert taken[1] == b"{}"


@pytest.mark.parametrize(
    "lines",
    [
        [b"Traceparent: a", b"Connection: close", *VARIED[2:]],
        [b"Traceparent: \xe4", *VARIED[1:]],
        [b"Traceparent: a ", *VARIED[1:]],
        [b"Traceparent: ", *VARIED[1:]],
        [b"traceparent: a", *VARIED[1:]],
        [b"Traceparent: " + b"a" * 5000, *VARIED[1:]],
        [*VARIED, b"X: y"],
        VARIED[1:],
    ],
)
def test_another_difference_is_the_parsers(lines: list[bytes]) -> None:
    """What frames a request, what isn't plain, what is too long, and another number of lines."""
    head = known(request(b"first", *VARIED))
    assert head is not None
    assert head.read(request(b"{}", *lines)) is None


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"HTTP/1.1", b"HTTP/1.1: x"),
        (b"POST", b"PUT"),
        (b"Length: 2", b"Length: +2"),
        (b"Length: 2", b"Length:  2"),
        (b"Length: 2", b"Length: 1_0"),
        (b"Length: 2", b"Length: 02\r\nContent-Length: 2"),
        (b"Length: 2", b"Length: 3"),
        (b"Length: 2", b"Length: 200000000"),
    ],
)
def test_so_is_another_first_line_or_an_odd_length(part: bytes, other: bytes) -> None:
    """Which only look like what is known."""
    head = known(request(b"first"))
    assert head is not None
    data = request(b"{}").replace(part, other)
    assert data != request(b"{}")
    assert head.read(data) is None


def test_a_difference_behind_the_length_is_seen() -> None:
    """Though as long as what was there."""
    head = known(request(b"first"))
    assert head is not None
    taken = head.read(request(b"{}").replace(b"text/plain", b"text/other"))
    assert taken is not None
    assert taken[0][-1] == (b"accept", b"text/other")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (request(b"hello") + b"\r\n", "something follows"),
        (request(b"hello") + request(b"hello"), "another request follows"),
        (request(b"hello")[:-1], "a part is missing"),
        (request(b"hello", b"X: " + b"x" * 5000), "it is long"),
        (request(b"hello", b"Transfer-Encoding: chunked"), "it is framed in two ways"),
        (request(b"hello").replace(b"Length: 5", b"Length:5"), "it is spelled in another way"),
        (request(b"hello", b"X:  y"), "a value has a space before it"),
        (b"\r\n" + request(b"hello"), "a line is before it"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "it has no length"),
        (b"GET / HTTP/1.1\r\nX: y\r\n\r\n", "it has no body"),
    ],
)
def test_a_doubtful_head_is_not_remembered(data: bytes, why: str) -> None:
    """Only one that came with its whole body, and nothing else."""
    assert known(data) is None, why


def test_a_head_near_the_limit_is_not_remembered() -> None:
    """Another length might have more digits."""
    data = request(b"hello")
    size = len(data) - len(b"hello")
    assert known(data, size + 7) is None
    assert known(data, size + 8) is not None


def test_a_scope_is_nobody_elses() -> None:
    """What an app changes in it is gone with its request."""
    head = known(request(b"hello"))
    assert head is not None
    for body in (b"one", b"another"):
        taken = head.read(request(body))
        assert taken is not None
        scope = head.scope(taken[0])
        assert scope["path"] == "/mcp"
        assert (b"content-length", b"%d" % len(body)) in scope["headers"]
        scope["headers"].clear()
        scope["path"] = "/elsewhere"


async def tell(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what was asked."""
    body = await Body(1_000_000, 5, InFlight(10)).read(receive, None)
    said = {key: scope[key] for key in ("method", "path", "raw_path", "query_string", "http_version", "headers")}
    await PlainTextResponse(f"{said} {body!r}\n")(scope, receive, send)


class Counting:
    """A parser that counts what it is given."""

    def __init__(self, parser: httptools.HttpRequestParser) -> None:
        self.parser = parser
        self.times = 0

    def feed_data(self, data: bytes) -> None:
        """Parse."""
        self.times += 1
        self.parser.feed_data(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parser, name)


def answers(*parts: bytes) -> tuple[list[bytes], int]:
    """What comes back for each of some pieces of data, and how many of them were parsed."""

    async def run() -> tuple[list[bytes], int]:
        connections = Connections(tell)
        protocol = await connections.open()
        counting: Any = Counting(protocol.parser)
        protocol.parser = counting
        said = []
        for part in parts:
            protocol.data_received(part)
            said.append(b"")
            while part.endswith(b".") and not said[-1].endswith(b"'\n"):
                said[-1] += await connections.heard(0)
        await connections.close()
        return said, counting.times

    return asyncio.run(run())


def alone(part: bytes) -> bytes:
    """What comes back for a request on a connection of its own."""
    return answers(part)[0][0]


def told(answer: bytes) -> bytes:
    """An answer without its head."""
    return answer.partition(b"\r\n\r\n")[2]


ONE, OTHER = request(b"hello."), request(b"a longer one.")


def test_a_head_is_parsed_once() -> None:
    """And its requests are told apart by their bodies and lengths."""
    said, parsed = answers(ONE, OTHER, ONE)
    assert parsed == 1
    assert [told(each) for each in said] == [told(alone(part)) for part in (ONE, OTHER, ONE)]
    assert b"'13'" in said[1]
    assert b"b'a longer one.'" in said[1]


@pytest.mark.parametrize(
    ("between", "parsed"),
    [
        ([request(b"hello.", b"X: y")], 3),
        ([ONE[:30], ONE[30:]], 4),
        ([ONE[:-1], b"."], 4),
        ([ONE[:1], ONE[1:]], 4),
        ([b"\r\n"], 3),
        ([b"GET / HTTP/1.1\r\nX: .\r\n\r\n" + ONE], 3),
        ([request(b"hello.", b"Expect: 100-continue")], 3),
    ],
)
def test_something_else_between_is_parsed(between: list[bytes], parsed: int) -> None:
    """And what follows it, too: only right behind a request of the same head is it sure where a request begins."""
    said, times = answers(ONE, *between, ONE)
    assert times == parsed
    assert told(said[-1]) == told(alone(ONE))


def test_heads_that_never_come_again_are_not_remembered_for_ever() -> None:
    """It would cost more than it brings; one that comes again in time makes up for those that didn't."""
    others = [request(b"hello.", b"X%d: y" % number) for number in range(8)]
    assert answers(*others, ONE, ONE, ONE)[1] == 11
    assert answers(*others[:7], ONE, ONE, *others[:7], ONE, ONE)[1] == 16


def test_the_end_of_a_connection_is_not_remembered() -> None:
    """A request that ends it is parsed each time, also one that came right behind another, and is answered once."""

    async def run() -> tuple[bytes, int]:
        connections = Connections(tell)
        protocol = await connections.open()
        counting: Any = Counting(protocol.parser)
        protocol.parser = counting
        for _ in range(2):
            protocol.data_received(request(b"hello.", b"Connection: close"))
        said = b""
        while part := await connections.heard(0):
            said += part
        await connections.close()
        return said, counting.times

    said, parsed = asyncio.run(run())
    assert parsed == 2
    assert said.count(b"HTTP/1.1 200") == said.count(b"connection: close") == 1


def test_pipelined_ones_keep_their_order() -> None:
    """Each in a piece of its own, before the first is answered."""

    async def run() -> bytes:
        connections = Connections(tell)
        protocol = await connections.open()
        for number in range(5):
            protocol.data_received(request(b"number %d." % number))
        said = b""
        while said.count(b"HTTP/1.1 200") < 5 or not said.endswith(b"'\n"):
            said += await connections.heard(0)
        await connections.close()
        return said

    said = asyncio.run(run())
    places = [said.index(b"number %d." % number) for number in range(5)]
    assert places == sorted(places)
