"""Tests of the client's side of signing."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import httpx
import httpx2
import pytest
from http_message_signatures import HTTPMessageVerifier, MappingKeyResolver
from http_message_signatures.algorithms import ED25519
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from anyreplica.signing.httpx_auth import Signed
from anyreplica.signing.sign import signed_headers
from conftest import StartServer
from tests.signing.asking import Asking, serving
from tests.signing.calls import CALLS, KEY, KEYS, NOW, OTHER_KEY, Call, check

VERIFIER = HTTPMessageVerifier(
    signature_algorithm=ED25519, key_resolver=MappingKeyResolver(public_keys=KEYS, private_keys={})
)


@pytest.mark.parametrize("call", CALLS)
def test_the_signature_library_accepts_our_signatures(call: Call) -> None:
    """The signature library accepts our signatures and digests by its own rules."""
    headers = signed_headers(call.method, call.url, call.body, "ci", KEY)
    message = SimpleNamespace(method=call.method, url=call.url, headers=headers)
    covered = ["@method", "@path", "content-digest", *(["@query"] if call.query else [])]
    (result,) = VERIFIER.verify(message, max_age=timedelta(minutes=1), require_components=covered, body=call.body)
    assert result.body == call.body
    assert result.parameters["keyid"] == "ci"


@pytest.mark.parametrize(
    ("url", "path", "query"),
    [
        ("http://swarm.example", "/", ""),
        ("http://swarm.example?a=1", "/", "a=1"),
        ("http://swarm.example/mcp?", "/mcp", ""),
        ("http://swarm.example/mcp?a=/&b=?#part", "/mcp", "a=/&b=?"),
        ("http://[::1]:8150//mcp;x/../%2e", "//mcp;x/../%2e", ""),
    ],
)
def test_the_target_of_a_url(url: str, path: str, query: str) -> None:
    """The signature covers the target as it is sent."""
    headers = signed_headers("post", url, b"", "ci", KEY, now=NOW)
    call = replace(Call(body=b"").plus(**{name.lower(): value for name, value in headers.items()}), path=path)
    assert check(replace(call, query=query)) == "ci"


def test_each_request_has_another_signature() -> None:
    """Each request gets a different signature, even at the same time."""
    made = [signed_headers("POST", "http://h/", b"", "ci", KEY, now=NOW)["Signature"] for _ in range(100)]
    assert len(set(made)) == 100


@pytest.mark.parametrize(
    ("url", "key_id", "said"),
    [
        *(
            ("http://h/", key_id, "^The key id must be printable ASCII")
            for key_id in ("", 'a"b', "a\\b", "a\r\nX: y", "é")
        ),
        *((f"http://h/{end}", "ci", "must be percent-encoded") for end in ("é", "a\nb", "?a\r\nX: y")),
    ],
)
def test_an_invalid_key_id_or_url_is_refused(url: str, key_id: str, said: str) -> None:
    """A key id that could add headers is refused, and so is a URL that would be sent in another form."""
    with pytest.raises(ValueError, match=said):
        signed_headers("POST", url, b"", key_id, KEY)


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_clients_of_both_libraries(library: Any) -> None:
    """Clients of both HTTP libraries sign each request with a new nonce, and send no body that they can't sign."""
    with serving(Asking()) as url, library.Client(auth=Signed("ci", KEY), base_url=url, verify=False) as client:
        answers = [
            client.get("/é x?ü=1&y=%2F"),
            client.post("/mcp", json={"hello": "wörld"}),
            client.post("/mcp", json={"hello": "wörld"}),
            client.post("/mcp", content=b"\x00\xff", params={"a": "b c"}),
            client.delete("/mcp", headers={"X-Tenant": "blue"}),
        ]
        assert [answer.json() for answer in answers] == [{"signed_by": "ci"}] * 5
        refused = client.get("/", auth=Signed("ci", OTHER_KEY))
        assert refused.status_code == 401
        assert "does not match" in refused.json()["refused"]
        replayed = client.send(answers[1].request, auth=None)
        assert "nonce was used before" in replayed.json()["refused"]
        with pytest.raises(library.RequestNotRead):
            client.post("/mcp", content=iter([b"a", b"b"]))


def test_the_official_client(start_server: StartServer) -> None:
    """The official client signs all its requests, in both protocol families."""
    server = start_server()

    async def call(url: str, mode: Any) -> str:
        async with httpx2.AsyncClient(auth=Signed("ci", KEY), verify=False) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                result = await client.call_tool("echo", {"message": "signed"})
                return str(result.content[0].text)  # type: ignore[union-attr]

    asking = Asking(forward_to=server.url)
    with serving(asking) as url:
        for mode in ("legacy", "2026-07-28"):
            assert asyncio.run(call(url, mode)) == "signed"
    assert len(asking.bodies) >= 2
