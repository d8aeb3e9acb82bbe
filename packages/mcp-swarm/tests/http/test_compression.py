"""Large replies, made smaller for callers that take them so."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Server, StartServer
from mcp_swarm.http.compression import accepts_gzip
from tests.calls import HEADERS, get, post, request

LARGE, LARGER, SMALL = 20_000, 300_000, 1_000


def reply(server: Server, length: int, **headers: str) -> httpx.Response:
    """An echo of so many characters."""
    asked = request("tools/call", {"name": "echo", "arguments": {"message": "äb" * (length // 2)}})
    sent = {**HEADERS, "Accept-Encoding": "identity", **headers}
    return post(server.url, json=asked, headers=sent)


@pytest.mark.parametrize("length", [LARGE, LARGER])
@pytest.mark.parametrize("said", ["gzip", "br, GZIP;q=0.5", "*"])
def test_a_large_reply_is_compressed(local_replicas: Server, length: int, said: str) -> None:
    """It says so, is what it would have been, and its connection is good for more."""
    plain = reply(local_replicas, length)
    small = reply(local_replicas, length, **{"Accept-Encoding": said})
    assert small.headers["Content-Encoding"] == "gzip"
    assert int(small.headers["Content-Length"]) < length / 5
    assert small.content == plain.content
    for each in (plain, small):
        assert each.headers["Vary"].lower() == "accept-encoding"
    assert "Content-Encoding" not in plain.headers


@pytest.mark.parametrize("said", ["identity", "gzip;q=0", "br", "*;q=0, gzip;q=nonsense", "gzip;q=0, *"])
def test_who_does_not_take_it_gets_it_plain(local_replicas: Server, said: str) -> None:
    """Whatever else it takes."""
    assert "Content-Encoding" not in reply(local_replicas, LARGE, **{"Accept-Encoding": said}).headers


def test_a_small_one_stays_as_it_is(local_replicas: Server) -> None:
    """It fits into the first packets anyway."""
    small = reply(local_replicas, SMALL, **{"Accept-Encoding": "gzip"})
    assert not {"content-encoding", "vary"} & small.headers.keys()


_BEGIN = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def test_the_sdks_endpoint_has_it(start_server: StartServer) -> None:
    """Its JSON is compressed; its event streams go as they are."""
    headers = {**HEADERS, "Accept": "application/json, text/event-stream", "Accept-Encoding": "gzip"}
    for settings, encoding in (({"STATELESS_HTTP": "false"}, "gzip"), ({"JSON_RESPONSE": "false"}, None)):
        server = start_server(COMPRESS_MIN_BYTES="100", **settings)
        begun = post(server.url, json=request("initialize", _BEGIN), headers=headers)
        assert begun.headers.get("Content-Encoding") == encoding
        assert '"protocolVersion":"2025-11-25"' in begun.text


def test_other_routes_have_it_too(start_server: StartServer) -> None:
    """From the same size on; Prometheus asks for it."""
    server = start_server(COMPRESS_MIN_BYTES="100")
    asked = get(f"{server.url}/metrics", headers={"Accept-Encoding": "gzip"})
    assert asked.headers["Content-Encoding"] == "gzip"
    assert "mcp_requests_total" in asked.text


def test_it_can_be_switched_off(start_server: StartServer) -> None:
    """Where a proxy does it, for instance."""
    server = start_server(COMPRESS_MIN_BYTES="0")
    assert not {"content-encoding", "vary"} & reply(server, LARGE, **{"Accept-Encoding": "gzip"}).headers.keys()


def test_a_connection_carries_on(start_server: StartServer) -> None:
    """Compressed replies and others, one after the other."""
    server = start_server()
    with httpx.Client(base_url=server.url, headers={**HEADERS, "Accept-Encoding": "gzip"}, verify=False) as client:
        for length in (LARGE, SMALL, LARGER, SMALL):
            asked = request("tools/call", {"name": "echo", "arguments": {"message": "x" * length}})
            assert len(client.post("/mcp", json=asked).json()["result"]["content"][0]["text"]) >= length


@given(
    st.binary(max_size=50) | st.lists(st.sampled_from([b"gzip", b"*", b";q=", b"0", b"1", b",", b" "])).map(b"".join)
)
def test_whatever_is_said_there_is_an_answer(said: bytes) -> None:
    """And no exception."""
    assert accepts_gzip(said) in (True, False)
