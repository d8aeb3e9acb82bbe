"""The audit log of a running replica."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from anyreplica.cli.audit import main
from anyreplica.features.keys.key import hash_of
from conftest import StartServer, until
from tests.auth.issuer import AUDIENCE, NAME, Issuer
from tests.calls import BOTH, HEADERS, legacy, modern
from tests.starts import start

pytestmark = pytest.mark.slow

KEY = "k" * 40
TOKEN = "t" * 40


def keys(folder: Path) -> dict[str, str]:
    """Return settings with one API key and one token."""
    file = folder / "keys"
    file.write_text(json.dumps({"id": "ci", "hash": hash_of(KEY)}) + "\n")
    return {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(file), "AUTH_TOKEN": TOKEN}


def lines(file: Path, count: int) -> list[dict[str, Any]]:
    """Wait until there are `count` entries of calls, and return them."""

    def found() -> list[dict[str, Any]]:
        said = [json.loads(line) for line in file.read_text().splitlines()]
        return [line for line in said if "event" not in line]

    until(lambda: len(found()) >= count, f"{count} entries are written")
    return found()


def test_each_call_has_an_entry(tmp_path: Path, start_server: StartServer) -> None:
    """Each call gets one entry that names the caller, the call and its outcome.

    This holds on both paths, in both protocol families, over REST, for calls from a page of another origin, and for
    refused calls. Probes get no entry.
    """
    file, page = tmp_path / "audit.jsonl", "https://app.example.com"
    settings = {"AUDIT_LOG": str(file), "AUDIT_ARGUMENTS": "echo.message", "CORS_ORIGINS": page, **keys(tmp_path)}
    server = start_server(**settings)
    bearer: dict[str, Any] = {"Authorization": f"Bearer {KEY}", "X-Request-ID": "mine", "Accept": BOTH}
    echo = {"name": "echo", "arguments": {"message": "hi", "repeat": 1}}
    legacy(server.url, "tools/call", echo, **bearer, Origin=page)
    modern(server.url, "tools/call", echo, **bearer)
    legacy(server.url, "tools/call", {"name": "nope", "arguments": {}}, **bearer)
    legacy(server.url, "tools/list", **{**bearer, "Authorization": f"Bearer {TOKEN}"})
    legacy(server.url, "tools/call", echo)
    with httpx.Client(verify=False) as client:
        client.post(f"{server.url}/mcp", content=b"{", headers={**HEADERS, **bearer})
        client.post(f"{server.url}/jobs", json={"job": "export_data", "params": {"rows": 1}}, headers=bearer)
        client.get(f"{server.url}/readyz")
        client.get(f"{server.url}/")
    found = lines(file, 7)
    said = [(line["caller"], line["method"], line["name"], line["outcome"], line["status"]) for line in found]
    expected = [
        ("key:ci", "tools/call", "echo", "ok", 200),
        ("key:ci", "tools/call", "echo", "ok", 200),
        ("key:ci", "tools/call", "nope", "failed", 200),
        (f"token:{hash_of(TOKEN)[7:23]}", "tools/list", "", "ok", 200),
        ("", "POST /mcp", "", "refused", 401),
        ("key:ci", "POST /mcp", "", "refused", 400),
        ("key:ci", "POST /jobs", "export_data", "ok", 202),
    ]
    assert sorted(said) == sorted(expected)  # an entry is written after the call, possibly after its reply has arrived
    echoes = [line for line in found if line["name"] == "echo"]
    other = next(line for line in found if line["name"] == "nope")
    assert [line["arguments"] for line in echoes] == [{"message": "hi"}] * 2
    assert echoes[0]["arguments_sha256"] == echoes[1]["arguments_sha256"] != other["arguments_sha256"]
    assert {line["request_id"] for line in found if line["status"] != 401} == {"mine"}
    assert all(line["ms"] > 0 for line in found)
    server.stop()
    assert len(lines(file, 7)) == 7
    assert main(["verify", str(file)]) == 0


def test_replicas_may_share_a_file(tmp_path: Path, start_server: StartServer) -> None:
    """Replicas may write to the same file, as those of `make up` do, and each has its own chain there."""
    file = tmp_path / "audit.jsonl"
    server = start_server("--replicas", "3", AUDIT_LOG=str(file))
    for _ in range(30):
        legacy(server.url, "tools/list")
    lines(file, 30)
    server.stop()
    done = start("audit", "verify", str(file))
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("ended; last hash") == 3


@pytest.mark.parametrize(("mode", "status"), [("refuse", 503), ("drop", 200)])
def test_a_full_disk(start_server: StartServer, mode: str, status: int) -> None:
    """With a full disk, a replica refuses calls or loses entries, as AUDIT_ON_FAILURE says, but probes succeed."""
    server = start_server(AUDIT_LOG="/dev/full", AUDIT_ON_FAILURE=mode)
    until(lambda: "Audit log: cannot write to /dev/full" in server.output, "the log reports the failed write")
    reply = legacy(server.url, "tools/list")
    assert reply.status_code == status
    if status == 503:
        assert reply.headers["Retry-After"] == "1"
        assert "Audit log not writable" in reply.json()["error"]["message"]
    assert httpx.get(f"{server.url}/readyz").status_code == 200


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"AUDIT_LOG": "/nowhere/audit"}, "AUDIT_LOG: /nowhere/audit cannot be opened: No such file or directory"),
        ({"AUDIT_LOG": "stdout", "AUDIT_KEY": "short"}, "AUDIT_KEY: the key is shorter than 32 bytes"),
        ({"AUDIT_LOG": "stdout", "AUDIT_ARGUMENTS": "echo"}, "AUDIT_ARGUMENTS: 'echo' is not a pattern"),
    ],
)
def test_a_wrong_setting_of_the_audit_log_stops_the_start(settings: dict[str, str], said: str) -> None:
    """`check` reports a wrong setting of the audit log in one line and exits with 3."""
    done = start("check", **settings)
    assert done.returncode == 3
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_secret_is_in_any_log(tmp_path: Path, start_server: StartServer, form: str) -> None:
    """No log contains a key, a token or an argument, valid or not, wherever the caller puts it."""
    with Issuer().serving() as issuer:
        file, audit_key = tmp_path / "audit.jsonl", "a" * 40
        server = start_server(
            AUDIT_LOG=str(file),
            AUDIT_KEY=audit_key,
            LOG_LEVEL="DEBUG",
            LOG_FORMAT=form,
            AUTH_JWT_ISSUER=NAME,
            AUTH_JWT_AUDIENCE=AUDIENCE,
            AUTH_JWT_JWKS=issuer.url,
            PUBLIC_URL="https://mcp.example.com",
            REQUEST_STATE_KEYS="r" * 40,
            **keys(tmp_path),
        )
        wrong = "w" * 40
        good, expired = issuer.token(), issuer.token(exp=1)
        arguments = {"message": "my-password-is-swordfish"}
        for bearer in (KEY, TOKEN, wrong, good, expired, good[:-5] + "AAAAA"):
            headers = {"Authorization": f"Bearer {bearer}"}
            legacy(server.url, "tools/call", {"name": "echo", "arguments": arguments}, **headers)
            modern(server.url, "tools/call", {"name": "echo", "arguments": {**arguments, "repeat": "x"}}, **headers)
            for wrong_ones in ({"message": arguments}, {"message": "x", "other": arguments}, {"repeat": "swordfish"}):
                legacy(server.url, "tools/call", {"name": "echo", "arguments": wrong_ones}, **headers)
            prompt = {"name": "summarize", "arguments": {"text": "swordfish", "x": 1}}
            legacy(server.url, "prompts/get", prompt, **headers)
            with httpx.Client(verify=False) as client:
                client.post(f"{server.url}/jobs", json={"job": "export_data", "params": arguments}, headers=headers)
                client.get(f"{server.url}/version", headers=headers)
        server.stop()
        logs = server.output + file.read_text()
        for secret in (KEY, TOKEN, wrong, good, expired, audit_key, "r" * 40, "swordfish", hash_of(KEY)):
            assert secret not in logs, [line[:300] for line in logs.splitlines() if secret in line][:9]
        assert good.rpartition(".")[2] not in logs
        assert logs.count("tools/call") >= 12
