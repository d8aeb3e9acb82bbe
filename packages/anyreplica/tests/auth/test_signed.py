"""Signed requests to replicas."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from anyreplica.features.keys.key import hash_of
from anyreplica.signing.keypair import new_pair, private_key
from anyreplica.signing.sign import signed_headers
from conftest import Server
from tests.calls import HEADERS, request
from tests.replicas import Fleet, RedisServer, running

KEY = "k" * 40
PAIRS = {name: new_pair() for name in ("robot", "other")}
MESSAGE = json.dumps(request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})).encode()


@contextmanager
def replicas(folder: Path, signing: str, count: int = 1, **settings: str) -> Iterator[Fleet]:
    """Start replicas that have two signers and an API key."""
    entries: list[dict[str, Any]] = [{"id": name, "public_key": public} for name, (_, public) in PAIRS.items()]
    entries[1]["tools"] = ["add"]
    entries.append({"id": "plain", "hash": hash_of(KEY)})
    (folder / "keys").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    known = {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(folder / "keys"), "SIGNING": signing}
    with running(folder, count, **{"MCP_COMPONENTS": "server", **known, **settings}) as found:
        yield found


@pytest.fixture(scope="module")
def accepting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that accepts signatures and API keys."""
    with replicas(tmp_path_factory.mktemp("accept"), "accept") as found:
        yield found.replicas[0]


@pytest.fixture(scope="module")
def requiring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that accepts only signatures."""
    with replicas(tmp_path_factory.mktemp("require"), "require") as found:
        yield found.replicas[0]


def signed(url: str, who: str = "robot", body: bytes = MESSAGE, path: str = "/mcp") -> dict[str, str]:
    """Return the headers of a request that `who` signs."""
    pem, _ = PAIRS[who]
    return {**HEADERS, **signed_headers("POST", url + path, body, who, private_key(pem.encode()))}


def send(url: str, headers: dict[str, str], body: bytes = MESSAGE, path: str = "/mcp") -> httpx.Response:
    """Send a request and return the reply."""
    return httpx.post(url + path, content=body, headers=headers, verify=False)


def test_a_signature_replaces_a_key(requiring: Server) -> None:
    """A signature replaces a key, and the tools that the caller sees are those of the signer."""
    reply = send(requiring.url, signed(requiring.url))
    assert reply.json()["result"]["structuredContent"] == {"result": "hi"}
    hidden = send(requiring.url, signed(requiring.url, "other"))
    assert hidden.json()["result"]["content"][0]["text"] == "Unknown tool: 'echo'"


def test_a_changed_or_repeated_request_is_refused(accepting: Server) -> None:
    """A changed or repeated request gets 401 with the reason, also if the replica accepts unsigned requests."""
    headers = signed(accepting.url)
    changed = send(accepting.url, headers, MESSAGE.replace(b"hi", b"ho"))
    assert (changed.status_code, changed.json()["error"]["data"]["error"]) == (401, "invalid_signature")
    assert send(accepting.url, headers).status_code == 200
    again = send(accepting.url, headers)
    assert (again.status_code, again.json()["error"]["data"]["error"]) == (401, "invalid_signature")
    assert "nonce was used before" in again.json()["error"]["message"]
    elsewhere = send(accepting.url, signed(accepting.url), path="/mcp/")
    assert elsewhere.status_code == 401


def test_a_key_alone_is_accepted_with_signing_accept(accepting: Server) -> None:
    """With SIGNING=accept, a key alone is accepted; a key with a signature must belong to the signer."""
    bearer = {"Authorization": f"Bearer {KEY}"}
    assert send(accepting.url, {**HEADERS, **bearer}).status_code == 200
    both = send(accepting.url, {**signed(accepting.url), **bearer})
    assert both.status_code == 401
    assert both.json()["error"]["message"] == "The signature and the Authorization header belong to different callers."


def test_a_key_alone_is_refused_with_signing_require(requiring: Server) -> None:
    """With SIGNING=require, a request without a signature, also to `/jobs`, gets 401 with `signature_required`."""
    for headers in ({**HEADERS, "Authorization": f"Bearer {KEY}"}, HEADERS):
        reply = send(requiring.url, headers)
        assert (reply.status_code, reply.json()["error"]["data"]["error"]) == (401, "signature_required")
        assert 'The guide "Authentication" of the documentation says how.' in reply.json()["error"]["message"]
    assert httpx.get(f"{requiring.url}/readyz").status_code == 200
    body = b'{"job": "export_data", "params": {"rows": 5}}'
    assert send(requiring.url, HEADERS, body, "/jobs").status_code == 401
    assert send(requiring.url, signed(requiring.url, body=body, path="/jobs"), body, "/jobs").status_code == 202


@pytest.mark.needs("redis")
def test_a_replay_is_refused_by_another_replica(tmp_path: Path, redis_server: RedisServer) -> None:
    """Another replica refuses a repeated request, because Redis holds the used nonces."""
    with replicas(tmp_path, "require", 3, REDIS_URL=redis_server.url) as fleet:
        headers = signed("http://mcp.example.com")
        statuses = [send(url, headers).status_code for url in fleet.urls]
        assert statuses == [200, 401, 401]


def test_a_large_signed_body_is_refused(accepting: Server) -> None:
    """A signed request with a body that is too large gets 413."""
    body = b" " * (5 * 1024 * 1024)
    assert send(accepting.url, signed(accepting.url, body=body), body).status_code == 413
