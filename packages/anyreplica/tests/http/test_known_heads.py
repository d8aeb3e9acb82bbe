"""Tests of remembered heads: a request with a known head gives exactly what the parser would give."""

import asyncio
from contextlib import nullcontext
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from starlette.types import Scope
from uvicorn.server import ServerState

from anyreplica import Settings
from anyreplica.http.request_limits import HeadCheck
from anyreplica.http.request_record import RECORD, HeadFacts, new_record, record_of
from anyreplica.http.responses import Refused
from anyreplica.http.uvicorn.connections import KEY, Connections
from anyreplica.http.uvicorn.cycle import Cycle
from anyreplica.http.uvicorn.protocol import HttpProtocol
from anyreplica.http.uvicorn.reader import _MOST_KNOWN, _MOST_LEARNT
from anyreplica.mcp.message import Request, check_envelope, routing_of
from conftest import generated
from tests.calls import ENVELOPE, VERSION
from tests.http.connections import CONFIG, Wire

FIELDS = (b"Host", b"Accept", b"Content-Type", b"X-Some")
INNER = b"GET /inner HTTP/1.1\r\nHost: a\r\n\r\n"
STARTS = (b"POST /mcp HTTP/1.1", b"POST /mcp HTTP/1.0", b"GET /%41 HTTP/1.1", b"\r\nGET / HTTP/1.1")
BODIES = (b"", b"{}", b"\r\n\r\n", INNER, b'{"a": "b"}')
ODD = [b"Connection: keep-alive", b"Connection: close", b"Expect: 100-continue", b"Upgrade: h2c", b"NoColon"]
ODD += [b"Connection: upgrade", b"Transfer-Encoding: chunked", b"Content-Length: 2", b"Host: other", b" folded"]
ODD += [b"X-Bare: a\nX-More: b"]


SETTINGS = Settings()


class Connection:
    """One connection, whose requests are complete as soon as they have arrived."""

    def __init__(self, connections: Connections) -> None:
        self.wire = Wire()
        state, loop, transport = {KEY: connections}, cast("Any", self.wire), cast("Any", self.wire)
        self.protocol = HttpProtocol(config=CONFIG, server_state=ServerState(), app_state=state, _loop=loop)
        self.protocol.connection_made(transport)
        self.cycles: list[Cycle] = []

    def receive(self, data: bytes) -> None:
        """Receive data, and answer all requests that are complete."""
        protocol = self.protocol
        protocol.data_received(data)
        while True:
            while protocol.reader.can_read(busy=protocol._active is not None):
                protocol._go_on()
            cycle = protocol._active
            if cycle is None or cycle.more_body:
                return
            self.cycles.append(cycle)
            cycle.response_started = cycle.response_complete = True
            protocol.on_response_complete()
            protocol._go_on()

    def result(self) -> tuple[list[Any], bytes]:
        """Return what the app would get, and the status lines of refusals."""
        asked = [(_plain(each.scope), bytes(each.body), each.keep_alive) for each in self.cycles]
        return asked, b"\n".join(line for line in self.wire.written.split(b"\r\n") if line.startswith(b"HTTP/"))


def _plain(scope: Any) -> dict[str, Any]:
    return {**scope, RECORD: record_of(scope).headers, "state": None}


class Forgetful(dict[Any, Any]):
    """A dictionary that remembers nothing."""

    def __setitem__(self, key: object, value: object) -> None:
        pass


@st.composite
def _pieces(draw: st.DrawFn) -> list[bytes]:
    """Draw what a client sends: a few different requests, each sent several times, whole or in parts."""
    requests = [INNER, *draw(st.lists(_request(), min_size=1, max_size=3))]
    sent: list[bytes] = []
    for request in draw(st.lists(st.sampled_from(requests), min_size=1, max_size=8)):
        end = request.find(b"\r\n\r\n") + 4
        cut = draw(st.one_of(st.none(), st.just(end), st.integers(0, len(request))))
        rest = request[cut:] if draw(st.integers(0, 4)) else b""  # a client may begin a request anew in the middle
        sent += [request] if cut is None else [request[:cut], rest]
        if draw(st.booleans()) and len(sent) > 1:
            sent[-2:] = [sent[-2] + sent[-1]]
    return [piece for piece in sent if piece]


@st.composite
def _request(draw: st.DrawFn) -> bytes:
    body = draw(st.sampled_from(BODIES))
    lines = [b"%b: %b" % (name, draw(st.sampled_from((b"a", b"b")))) for name in FIELDS if draw(st.integers(0, 9))]
    lines += draw(st.lists(st.sampled_from(ODD), max_size=2)) if draw(st.booleans()) else []
    length = len(body) + draw(st.sampled_from((0, 0, 0, 1, -1)))
    lines += [b"Content-Length: %d" % length] if body or draw(st.booleans()) else []
    start = draw(st.sampled_from(STARTS))
    return b"\r\n".join([start, *draw(st.permutations(lines))]) + b"\r\n\r\n" + body


@generated(400, suppress_health_check=[HealthCheck.too_slow])
@given(_pieces())
def test_a_known_head_gives_what_the_parser_gives(pieces: list[bytes]) -> None:
    """The differential test: the same data with and without remembered heads, on a new connection and on an old one."""
    results = []
    for remembers in (True, False):
        connections = Connections(SETTINGS)
        connections.known_heads = {} if remembers else Forgetful()
        first, second = Connection(connections), Connection(connections)
        for connection in (first, second):
            for piece in pieces:
                connection.receive(piece)
        results.append((first.result(), second.result()))
    assert results[0] == results[1]


def post(body: bytes = b"{}", *lines: bytes) -> bytes:
    """Return a request that is remembered."""
    return b"\r\n".join([b"POST /mcp HTTP/1.1", b"Host: a", *lines, b"Content-Length: %d" % len(body), b"", body])


def test_the_head_of_a_request_is_remembered() -> None:
    """The head of the first request is remembered, also for other connections, and each request has its own scope."""
    connections = Connections(SETTINGS)
    first, second = Connection(connections), Connection(connections)
    first.receive(post(b"{}"))
    assert len(connections.known_heads) == 1
    second.receive(post(b"[]"))
    one, other = (cast("Scope", each.cycles[0].scope) for each in (first, second))
    assert bytes(second.cycles[0].body) == b"[]"
    assert one["headers"] == other["headers"]
    assert one["headers"] is not other["headers"]
    assert record_of(other).facts is not None


@pytest.mark.parametrize(
    "data",
    [
        post(b"{}") + b"GET",
        post(b"{}")[:-1],
        post(b"{}", b"Connection: close"),
        post(b"{}", b"Expect: 100-continue"),
        post(b"{}", b"Upgrade: h2c", b"Connection: upgrade"),
        post(b"{}", b"Accept: a", b"Accept: b"),
        post(b"{}").replace(b"HTTP/1.1", b"HTTP/1.0"),
        post(b"{}", b"X-Long: " + b"x" * 3000),
    ],
)
def test_other_heads_are_not_remembered(data: bytes) -> None:
    """Only the head of a whole request in one piece, after which the connection goes on as before."""
    connections = Connections(SETTINGS)
    Connection(connections).receive(data)
    assert connections.known_heads == {}


def test_a_head_of_a_smuggled_length_is_parsed() -> None:
    """A known head with more data than its request has is the parser's work: the rest is a request of its own."""
    connections = Connections(SETTINGS)
    connection = Connection(connections)
    connection.receive(post(b"{}"))
    connection.receive(post(b"{}") + post(b"[]"))
    assert [bytes(each.body) for each in connection.cycles] == [b"{}", b"{}", b"[]"]


def test_no_client_displaces_the_heads_of_others() -> None:
    """A connection adds a few heads only, and a replica remembers a limited number."""
    connections = Connections(SETTINGS)
    greedy = Connection(connections)
    for number in range(100):
        greedy.receive(post(b"{}", b"X-Number: %d" % number))
    assert len(connections.known_heads) == _MOST_LEARNT
    for client in range(2 * _MOST_KNOWN // _MOST_LEARNT):
        each = Connection(connections)
        for number in range(_MOST_LEARNT):
            each.receive(post(b"{}", b"X-Client: %d-%d" % (client, number)))
    assert len(connections.known_heads) == _MOST_KNOWN


def test_a_head_is_accepted_for_one_address_of_the_server_only() -> None:
    """`Host` is checked on loopback addresses only, so a head that was accepted elsewhere is checked there again."""
    connections = Connections(SETTINGS)
    connection = Connection(connections)
    check = HeadCheck((), ())

    def accepted(address: str) -> bool:
        connection.receive(post(b"{}", b"Content-Type: application/json", b"Accept: application/json"))
        scope: Scope = {**connection.cycles[-1].scope, "server": (address, 8000)}
        facts = record_of(scope).facts
        if facts is not None and facts.accepted_at == (scope["scheme"], scope["server"]):
            return True
        try:
            asyncio.run(check.check(scope, cast("Any", None)))  # it receives nothing
        except Refused:
            return False
        return True

    addresses = ("192.0.2.1", "192.0.2.1", "192.0.2.1", "127.0.0.1", "127.0.0.1")
    assert [accepted(address) for address in addresses] == [True, True, True, False, False]


def test_a_known_head_fits_only_the_tool_that_it_names() -> None:
    """Each body is compared with what the head names, also after requests with the same head were accepted."""
    headers = {b"mcp-protocol-version": VERSION.encode(), b"mcp-method": b"tools/call", b"mcp-name": b"echo"}
    record = new_record(headers)
    record.facts = HeadFacts(headers)
    for name in ("echo", "other", "echo", "Echo"):
        request = Request(1, "tools/call", {"name": name, "_meta": ENVELOPE}, 100)
        with nullcontext() if name == "echo" else pytest.raises(Refused, match="does not match"):
            check_envelope(request, routing_of(record))
