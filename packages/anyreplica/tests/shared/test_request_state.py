"""Tests of the encrypted state of a multi-round tool: replicas with the same keys open it for its owner for a time."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import Server, StartServer, free_port, until
from tests.calls import modern, text
from tests.replicas import PACKS, Fleet, RedisServer
from tests.starts import start

OLD = "0ld-" + "a" * 40
NEW = "n3w-" + "b" * 40
ACCEPT = {"action": "accept", "content": {"sure": True}}
REFUSED = {"code": -32602, "message": "Invalid or expired requestState", "data": {"reason": "invalid_request_state"}}


@dataclass(frozen=True)
class Asked:
    """A question from any replica to a caller."""

    state: str
    amount: int
    headers: dict[str, str]

    def answer(self, url: str, *, tool: str = "transfer", **changed: Any) -> httpx.Response:
        """Answer the question at any replica. The arguments `changed` replace parts of the request."""
        params = {"name": tool, "arguments": {"amount": self.amount}, "inputResponses": {"sure": ACCEPT}}
        headers = {**self.headers, **changed.pop("headers", {})}
        return modern(url, "tools/call", {**params, "requestState": self.state, **changed}, **headers)


def ask(url: str, amount: int = 7, **headers: str) -> Asked:
    """Start a transfer, which asks if the amount is right."""
    reply = modern(url, "tools/call", {"name": "transfer", "arguments": {"amount": amount}}, **headers)
    result = reply.json()["result"]
    assert result["resultType"] == "input_required", result
    return Asked(result["requestState"], amount, headers)


def accepted(reply: httpx.Response) -> bool:
    """Return whether the replica accepted a round. A refusal must have the neutral error text."""
    body = reply.json()
    if "result" in body:
        assert text(body["result"]).startswith("accept: "), body
        return True
    assert body["error"] == REFUSED
    return False


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """A replica for each list of keys in a rotation, and a replica with another name."""
    folder = tmp_path_factory.mktemp("rings")
    keys = {"old": OLD, "old,new": f"{OLD}\n{NEW}", "new,old": f"{NEW} {OLD}", "new": NEW, "another name": OLD}
    with contextlib.ExitStack() as stack:
        servers = {}
        for ring, key in keys.items():
            named = {"MCP_NAME": "another"} if ring == "another name" else {}
            servers[ring] = Server(folder / ring, MCP_COMPONENTS=PACKS, REQUEST_STATE_KEYS=key, **named)
            stack.callback(servers[ring].stop)
        for server in servers.values():
            server.wait_ready()
        yield servers


@pytest.mark.parametrize(
    ("sealed_by", "refused_by"), [("old", "new"), ("old,new", "new"), ("new,old", "old"), ("new", "old")]
)
def test_keys_are_changed_without_a_lost_round(rings: dict[str, Server], sealed_by: str, refused_by: str) -> None:
    """No round is lost if all get the new key, then seal (encrypt and authenticate) with it, then drop the old one."""
    asked = ask(rings[sealed_by].url)
    refused = {ring for ring in rings.keys() - {"another name"} if not accepted(asked.answer(rings[ring].url))}
    assert refused == {refused_by}


def test_a_server_with_another_name_refuses_a_state(rings: dict[str, Server]) -> None:
    """A server refuses the states of a server with another name, even if both have the same keys."""
    assert not accepted(ask(rings["old"].url).answer(rings["another name"].url))
    assert not accepted(ask(rings["another name"].url).answer(rings["old"].url))


def test_keys_from_a_secret(start_server: StartServer, tmp_path: Path) -> None:
    """A replica reads its keys from a secret file with one key per line."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "request_state_keys").write_text(f"{NEW}\n{OLD}\n")
    settings = {"MCP_COMPONENTS": PACKS, "MCP_REPLICAS": "3", "SECRETS_DIR": str(secrets)}
    one, other = start_server(ready=False, **settings), start_server(ready=False, **settings)
    one.wait_ready()
    other.wait_ready()
    assert accepted(ask(one.url).answer(other.url))
    assert not accepted(ask(one.url).answer(other.url, requestState="v1.nonsense"))
    for key in (OLD, NEW):
        assert key not in one.output + other.output


def test_local_replicas_share_a_generated_key(start_server: StartServer) -> None:
    """Local replicas share a generated key, so that any of them can continue a call without settings."""
    server = start_server("--replicas", "3", ready=False, MCP_COMPONENTS=PACKS)
    until(lambda: "Ctrl-C stops the replicas" in server.output, f"all replicas are ready:\n{server.output}")
    pairs: set[bool] = set()

    def crossed() -> bool:
        begun = modern(server.url, "tools/call", {"name": "transfer", "arguments": {"amount": 1}})
        asked = Asked(begun.json()["result"]["requestState"], 1, {})
        ended = asked.answer(server.url)
        assert accepted(ended)
        pairs.add(begun.headers["x-served-by"] != ended.headers["x-served-by"])
        return pairs == {True, False}

    until(crossed, "one call moves to another replica and one call stays on its replica")


def test_a_generated_key_ends_with_its_replica(start_server: StartServer) -> None:
    """A single replica without keys generates a key. After a restart it refuses the old states."""
    keyless = start_server(MCP_COMPONENTS=PACKS)
    asked = ask(keyless.url)
    assert accepted(asked.answer(keyless.url))
    keyless.stop()
    again = start_server(MCP_COMPONENTS=PACKS)
    assert not accepted(asked.answer(again.url))


def test_a_state_is_for_one_call(fleet: Fleet) -> None:
    """A state is valid only for its own call: the same tool with the same arguments."""
    first, second, third = fleet.urls
    asked = ask(first)
    assert not accepted(asked.answer(second, arguments={"amount": 7_000}))
    assert not accepted(asked.answer(third, arguments={"amount": 7, "to": "me"}))
    assert not accepted(asked.answer(second, arguments=None))
    for tool in ("echo", "test_input_required_result_request_state"):
        assert not accepted(asked.answer(third, tool=tool))
    prompt = {"name": "test_input_required_result_prompt", "requestState": asked.state}
    assert modern(second, "prompts/get", prompt).json()["error"] == REFUSED
    assert accepted(asked.answer(third))


@pytest.mark.parametrize("place", [0, 3, 10, 40, -20, -1])
def test_a_state_that_was_changed_is_refused(fleet: Fleet, place: int) -> None:
    """A replica refuses a state with a change in its version, key name, body or tag."""
    first, second, _ = fleet.urls
    asked = ask(first)
    place %= len(asked.state)
    other = "A" if asked.state[place] != "A" else "Q"
    assert not accepted(asked.answer(second, requestState=asked.state[:place] + other + asked.state[place + 1 :]))
    assert accepted(asked.answer(second))


@pytest.mark.parametrize("state", ["", "v1.", "asked about 7", "v1." + "A" * 60, "🌍", "\x00", "v2.AAAA"])
def test_an_invented_state_is_refused(fleet: Fleet, state: str) -> None:
    """A replica refuses an invented state, and the error does not say what is wrong with the state."""
    assert not accepted(Asked(state, 7, {}).answer(fleet.urls[0]))


@pytest.mark.parametrize("state", [5, 1.5, True, [], {}])
def test_a_state_is_text(fleet: Fleet, state: Any) -> None:
    """A state that is not text is an invalid parameter."""
    assert Asked(state, 7, {}).answer(fleet.urls[0]).json()["error"]["code"] == -32602


def test_a_state_belongs_to_its_caller(rings: dict[str, Server], start_server: StartServer) -> None:
    """A caller cannot use the state of another caller."""
    common = {"MCP_COMPONENTS": PACKS, "REQUEST_STATE_KEYS": OLD, "AUTH_ENABLED": "true"}
    alices, bobs = (start_server(ready=False, **common, AUTH_TOKEN=token) for token in ("alice", "bob"))
    anybodys = rings["old"]
    for server in (alices, bobs):
        server.wait_ready()
    hers = ask(alices.url, Authorization="Bearer alice")
    assert not accepted(hers.answer(bobs.url, headers={"Authorization": "Bearer bob"}))
    assert not accepted(hers.answer(anybodys.url))
    assert not accepted(ask(anybodys.url).answer(bobs.url, headers={"Authorization": "Bearer bob"}))
    assert accepted(hers.answer(alices.url))


def test_a_state_expires(start_server: StartServer) -> None:
    """A state expires after REQUEST_STATE_SECONDS."""
    server = start_server(MCP_COMPONENTS=PACKS, REQUEST_STATE_SECONDS="1")
    asked = ask(server.url)
    assert accepted(asked.answer(server.url))
    until(lambda: not accepted(asked.answer(server.url)), "the state has expired")
    assert accepted(ask(server.url).answer(server.url))


@pytest.mark.needs("redis")
def test_a_state_is_valid_for_one_use(fleet_with_redis: Fleet) -> None:
    """With Redis, one of all replicas accepts a state once. A refused attempt of a stranger does not use it up."""
    first, second, third = fleet_with_redis.urls
    asked, other = ask(first), ask(first)
    assert not accepted(asked.answer(second, arguments={"amount": 7_000}))
    assert not accepted(asked.answer(second, tool="echo"))
    assert accepted(asked.answer(third))
    for url in fleet_with_redis.urls:
        assert not accepted(asked.answer(url))
    assert accepted(other.answer(third))


@pytest.mark.needs("redis")
def test_the_redis_key_of_a_used_state_expires(start_server: StartServer, redis_server: RedisServer) -> None:
    """Redis has a key for each used state until the state expires, and no key for an invalid state."""
    settings = {"REQUEST_STATE_KEYS": OLD, "REQUEST_STATE_SECONDS": "2", "REDIS_URL": redis_server.url}
    server = start_server(MCP_COMPONENTS=PACKS, **settings)

    def remembered() -> list[str]:
        return redis_server.ask("keys", "template-mcp:request_state:*").split()

    assert not accepted(Asked("v1.junk", 7, {}).answer(server.url))
    assert remembered() == []
    assert accepted(ask(server.url).answer(server.url))
    (key,) = remembered()
    assert redis_server.ask("ttl", key) in ("2", "3")
    until(lambda: not remembered(), "Redis has no key of the used state")


def test_without_redis_a_state_is_valid_until_it_expires(fleet: Fleet) -> None:
    """Without Redis a state is valid more than once, because replicas cannot share the used states."""
    first, second, third = fleet.urls
    asked = ask(first)
    assert all(accepted(asked.answer(url)) for url in (second, third, second))


@pytest.mark.needs("redis")
def test_during_an_outage_of_redis_states_are_accepted(start_server: StartServer, redis_server: RedisServer) -> None:
    """Tools must work: during an outage of Redis, states are accepted more than once, with a warning."""
    server = start_server(MCP_COMPONENTS=PACKS, REQUEST_STATE_KEYS=OLD, REDIS_URL=redis_server.url)
    asked = ask(server.url)
    redis_server.kill()
    assert accepted(asked.answer(server.url))
    assert accepted(asked.answer(server.url))
    warning = "a requestState is accepted without the check for a second use"
    until(lambda: warning in server.output, "the log contains the warning")
    redis_server.start()
    asked = ask(server.url)
    assert accepted(asked.answer(server.url))
    until(lambda: not accepted(asked.answer(server.url)), "the replica refuses the second use of a state again")


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"MCP_REPLICAS": "3"}, "REQUEST_STATE_KEYS: required by MCP_REPLICAS=3"),
        ({"REQUEST_STATE_KEYS": "hunter2"}, "REQUEST_STATE_KEYS: a key is shorter than 32 characters"),
        ({"REQUEST_STATE_KEYS": f"{OLD}\nhunter2"}, "REQUEST_STATE_KEYS: a key is shorter than 32 characters"),
        ({"REQUEST_STATE_KEYS": f"hunter2{OLD},hunter2{OLD}"}, "REQUEST_STATE_KEYS: the same key occurs twice"),
        ({"REQUEST_STATE_SECONDS": "0"}, "REQUEST_STATE_SECONDS=0"),
        ({"MCP_REPLICAS": "0"}, "MCP_REPLICAS=0"),
        ({"REDIS_URL": "http://:hunter2@localhost:6379"}, "REDIS_URL"),
        ({"REDIS_URL": "hunter2"}, "REDIS_URL"),
        ({"REDIS_URL": "redis://:hunter2@localhost:port/0"}, "REDIS_URL"),
        ({"REDIS_URL": "redis://:hunter2@localhost:99999/0"}, "REDIS_URL"),
        ({"REDIS_URL": "redis://:hunter2/3@localhost:6379/0"}, "REDIS_URL"),  # The / should be written %2F.
        ({"REDIS_URL": "redis://:hunter2@localhost:6379/0?socket_timeout=soon"}, "REDIS_URL"),
        ({"REDIS_URL": "redis://:hunter2@localhost:6379/0?no_such_option=1"}, "REDIS_URL"),
    ],
)
def test_invalid_settings_are_refused_at_the_start(settings: dict[str, str], names: str) -> None:
    """Invalid settings stop the start and `check` with one line that names the variable and shows no secret."""
    for arguments in ((), ("check",)):
        done = start(*arguments, MCP_PORT=str(free_port()), **settings)
        output = done.stdout + done.stderr
        assert "hunter2" not in output
        assert "Traceback" not in output
        assert done.returncode == 3, output
        (line,) = [line for line in output.splitlines() if names.partition(":")[0] in line]
        assert line.startswith(names)
