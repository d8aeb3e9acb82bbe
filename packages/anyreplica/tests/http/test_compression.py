"""Tests of the compression of large replies."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.http.compression import accepts_gzip
from conftest import Server, StartServer
from tests.calls import HEADERS, get, legacy, request

LARGE, LARGER, SMALL = 20_000, 300_000, 1_000


def reply(server: Server, length: int, **headers: str) -> httpx.Response:
    """Call `echo` with a text of this many characters and return the reply."""
    arguments = {"message": "äb" * (length // 2)}
    sent = {"Accept-Encoding": "identity", **headers}
    return legacy(server.url, "tools/call", {"name": "echo", "arguments": arguments}, **sent)


@pytest.mark.parametrize("length", [LARGE, LARGER])
@pytest.mark.parametrize("said", ["gzip", "br, GZIP;q=0.5", "*"])
def test_a_large_reply_is_compressed(local_replicas: Server, length: int, said: str) -> None:
    """A replica compresses a large reply for a client that accepts gzip, and the content stays the same."""
    plain = reply(local_replicas, length)
    small = reply(local_replicas, length, **{"Accept-Encoding": said})
    assert small.headers["Content-Encoding"] == "gzip"
    assert int(small.headers["Content-Length"]) < length / 5
    assert small.content == plain.content
    for each in (plain, small):
        assert each.headers["Vary"].lower() == "accept-encoding"
    assert "Content-Encoding" not in plain.headers


@pytest.mark.parametrize("said", ["identity", "gzip;q=0", "br", "*;q=0, gzip;q=nonsense", "gzip;q=0, *"])
def test_a_client_without_gzip_gets_a_plain_reply(local_replicas: Server, said: str) -> None:
    """A replica does not compress a reply for a client that does not accept gzip."""
    assert "Content-Encoding" not in reply(local_replicas, LARGE, **{"Accept-Encoding": said}).headers


def test_a_small_reply_is_not_compressed(local_replicas: Server) -> None:
    """A replica does not compress a small reply, because it fits into the first packets anyway."""
    small = reply(local_replicas, SMALL, **{"Accept-Encoding": "gzip"})
    assert not {"content-encoding", "vary"} & small.headers.keys()


def test_other_routes_compress(start_server: StartServer) -> None:
    """A replica also compresses large replies of other routes, for example the metrics that Prometheus reads."""
    server = start_server(COMPRESS_MIN_BYTES="100")
    asked = get(f"{server.url}/metrics", headers={"Accept-Encoding": "gzip"})
    assert asked.headers["Content-Encoding"] == "gzip"
    assert "mcp_requests_total" in asked.text


def test_compression_can_be_disabled(start_server: StartServer) -> None:
    """COMPRESS_MIN_BYTES=0 disables compression, for example behind a proxy that compresses."""
    server = start_server(COMPRESS_MIN_BYTES="0")
    assert not {"content-encoding", "vary"} & reply(server, LARGE, **{"Accept-Encoding": "gzip"}).headers.keys()


def test_a_connection_carries_compressed_and_plain_replies(local_url: str) -> None:
    """One connection carries compressed replies and plain replies in turn."""
    with httpx.Client(base_url=local_url, headers={**HEADERS, "Accept-Encoding": "gzip"}, verify=False) as client:
        for length in (LARGE, SMALL, LARGER, SMALL):
            asked = request("tools/call", {"name": "echo", "arguments": {"message": "x" * length}})
            assert len(client.post("/mcp", json=asked).json()["result"]["content"][0]["text"]) >= length


@given(
    st.binary(max_size=50) | st.lists(st.sampled_from([b"gzip", b"*", b";q=", b"0", b"1", b",", b" "])).map(b"".join)
)
def test_any_accept_encoding_is_parsed(said: bytes) -> None:
    """The parser of Accept-Encoding accepts any bytes without an exception."""
    assert accepts_gzip(said) in (True, False)
