"""Signed requests, at replicas."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import Server
from mcp_swarm.auth.key import hash_of
from mcp_swarm.signing.keypair import new_pair, private_key
from mcp_swarm.signing.sign import signed_headers
from tests.calls import HEADERS, request
from tests.replicas import Fleet, RedisServer, running

KEY = "k" * 40
PAIRS = {name: new_pair() for name in ("robot", "other")}
MESSAGE = json.dumps(request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})).encode()


@contextmanager
def replicas(folder: Path, signing: str, count: int = 1, **settings: str) -> Iterator[Fleet]:
    """Replicas that know two signers and a key."""
    entries: list[dict[str, Any]] = [{"id": name, "public_key": public} for name, (_, public) in PAIRS.items()]
    entries[1]["tools"] = ["add"]
    entries.append({"id": "plain", "hash": hash_of(KEY)})
    (folder / "keys").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    known = {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(folder / "keys"), "SIGNING": signing}
    with running(folder, count, **{"MCP_COMPONENTS": "tests.sample", **known, **settings}) as found:
        yield found


@pytest.fixture(scope="module")
def accepting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that takes signatures and keys."""
    with replicas(tmp_path_factory.mktemp("accept"), "accept") as found:
        yield found.replicas[0]


@pytest.fixture(scope="module")
def requiring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that takes nothing but signatures."""
    with replicas(tmp_path_factory.mktemp("require"), "require") as found:
        yield found.replicas[0]


def signed(url: str, who: str = "robot", body: bytes = MESSAGE, path: str = "/mcp") -> dict[str, str]:
    """The headers of a request that somebody signs."""
    pem, _ = PAIRS[who]
    return {**HEADERS, **signed_headers("POST", url + path, body, who, private_key(pem.encode()))}


def send(url: str, headers: dict[str, str], body: bytes = MESSAGE, path: str = "/mcp") -> httpx.Response:
    """The reply to it."""
    with httpx.Client(verify=False) as client:
        return client.post(url + path, content=body, headers=headers)


@pytest.mark.parametrize("mode", ["accepting", "requiring"])
def test_a_signature_opens(mode: str, request: pytest.FixtureRequest) -> None:
    """Without a key; and the caller is known by it."""
    server = request.getfixturevalue(mode)
    reply = send(server.url, signed(server.url))
    assert reply.json()["result"]["structuredContent"] == {"result": "hi"}
    hidden = send(server.url, signed(server.url, "other"))
    assert hidden.json()["result"]["content"][0]["text"] == "Unknown tool: 'echo'"


@pytest.mark.parametrize("mode", ["accepting", "requiring"])
def test_what_was_changed_or_sent_before_is_refused(mode: str, request: pytest.FixtureRequest) -> None:
    """With 401 and what is wrong."""
    server = request.getfixturevalue(mode)
    headers = signed(server.url)
    changed = send(server.url, headers, MESSAGE.replace(b"hi", b"ho"))
    assert (changed.status_code, changed.json()["error"]) == (401, "invalid_signature")
    assert send(server.url, headers).status_code == 200
    again = send(server.url, headers)
    assert (again.status_code, again.json()["error"]) == (401, "invalid_signature")
    assert "nonce was used before" in again.json()["message"]
    elsewhere = send(server.url, signed(server.url), path="/mcp/")
    assert elsewhere.status_code == 401


def test_keys_open_where_signatures_are_accepted(accepting: Server) -> None:
    """Alone; beside a signature only the signer's own."""
    bearer = {"Authorization": f"Bearer {KEY}"}
    assert send(accepting.url, {**HEADERS, **bearer}).status_code == 200
    both = send(accepting.url, {**signed(accepting.url), **bearer})
    assert both.status_code == 401
    assert both.json()["message"] == "The signature and the Authorization header belong to different callers."


def test_keys_alone_are_refused_where_signatures_are_required(requiring: Server) -> None:
    """And it is said what is missing."""
    for headers in ({**HEADERS, "Authorization": f"Bearer {KEY}"}, HEADERS):
        reply = send(requiring.url, headers)
        assert (reply.status_code, reply.json()["error"]) == (401, "signature_required")
        assert 'The guide "Authentication" of the documentation says how.' in reply.json()["message"]
    assert httpx.get(f"{requiring.url}/readyz").status_code == 200


def test_jobs_are_signed_as_well(requiring: Server) -> None:
    """By the same rule."""
    body = b'{"job": "export_data", "params": {"rows": 5}}'
    assert send(requiring.url, HEADERS, body, "/jobs").status_code == 401
    assert send(requiring.url, signed(requiring.url, body=body, path="/jobs"), body, "/jobs").status_code == 202


@pytest.mark.needs("redis")
def test_a_replay_is_refused_by_another_replica(tmp_path: Path, redis_server: RedisServer) -> None:
    """Which knows of the nonce by Redis."""
    with replicas(tmp_path, "require", 3, REDIS_URL=redis_server.url) as fleet:
        headers = signed("http://mcp.example.com")
        statuses = [send(url, headers).status_code for url in fleet.urls]
        assert statuses == [200, 401, 401]


def test_a_body_is_bounded_before_it_is_checked(accepting: Server) -> None:
    """As everywhere."""
    body = b" " * (5 * 1024 * 1024)
    assert send(accepting.url, signed(accepting.url, body=body), body).status_code == 413
