"""What anybody can store with registrations and logins is small, expires, and has a limit for each address."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from anyreplica.features.login import limits
from anyreplica.features.login.limits import LoginRequest, StoredBytes, answering
from anyreplica.features.login.storage import UNUSED_SECONDS, USED_SECONDS, remove_expired
from anyreplica.http.responses import Refused
from conftest import until
from tests.auth.login.flow import REDIRECT, OAuthClient
from tests.auth.login.replica import log_in, served
from tests.ratelimit.test_bucket import Clock
from tests.replicas import RedisServer

LIMIT = limits._MOST_OF_ADDRESS


def flood(url: str, http: httpx.Client, name: str = "x" * 3500) -> int:
    """Register clients from one address until it is refused. Return the number of registered clients."""
    for number in range(2000):
        reply = http.post(f"{url}/register", json={"redirect_uris": [REDIRECT], "client_name": name})
        if reply.status_code == 429:
            assert f"the limit is {LIMIT} stored bytes" in reply.json()["error_description"]
            assert 0 < int(reply.headers["retry-after"]) <= 600
            return number
        assert reply.status_code == 201, reply.text
    raise AssertionError("no limit")


@pytest.mark.needs("redis")
def test_one_address_does_not_fill_redis(redis_server: RedisServer, tmp_path: Path) -> None:
    """Registrations of one address are small, expire within an hour, or 90 days after a login, and have a limit."""
    with served(tmp_path, REDIS_URL=redis_server.url) as server, httpx.Client() as bad:
        large = bad.post(f"{server.url}/register", json={"redirect_uris": [REDIRECT], "client_name": "x" * 58_000})
        assert (large.status_code, large.json()["error"]) == (400, "invalid_client_metadata")
        assert flood(server.url, bad) > 100
        stored = redis_server.entries("*:login:state:*").values()
        sizes = [len(value) for value, _ in stored]
        assert max(sizes) < 6000
        assert sum(sizes) < LIMIT + 6000
        assert all(0 < seconds <= UNUSED_SECONDS for _, seconds in stored)
        assert log_in(server.url)
        left = [seconds for _, seconds in redis_server.entries("*:login:state:*").values()]
        assert [each for each in left if each == pytest.approx(90 * 86400, abs=60)]


@pytest.mark.needs("redis")
def test_logins_that_only_begin_count(redis_server: RedisServer, tmp_path: Path) -> None:
    """The texts that a client sends with /authorize are stored, so they count for the limit of its address."""
    with served(tmp_path, REDIS_URL=redis_server.url) as server, httpx.Client() as bad:
        client = OAuthClient(server.url)
        assert client.register(server.url).status_code == 201
        url, _, query = client.authorization(server.url, state="x" * 50_000).partition("?")
        form = {"headers": {"Content-Type": "application/x-www-form-urlencoded"}, "content": query}
        codes = [bad.post(url, **form).status_code for _ in range(30)]  # type: ignore[arg-type]
        assert codes == sorted(codes)
        assert set(codes) == {302, 429}
        assert log_in(server.url)


@pytest.mark.slow
@pytest.mark.servers
def test_one_address_does_not_fill_the_disk(tmp_path: Path) -> None:
    """Without Redis, registrations are files: they expire, expired ones are removed, and an address has a limit."""
    home = tmp_path / "home" / "oauth-proxy"

    def files() -> dict[Path, dict[str, Any]]:
        return {path: json.loads(path.read_text()) for path in home.glob("*/*client*/*.json")}

    def seconds(entry: dict[str, Any]) -> float:
        return (datetime.fromisoformat(entry["expires_at"]) - datetime.now(UTC)).total_seconds()

    with served(tmp_path) as server, httpx.Client() as bad:
        assert bad.post(f"{server.url}/register", json={"redirect_uris": [REDIRECT]}).status_code == 201
        assert [seconds(each) for each in files().values()] == [pytest.approx(UNUSED_SECONDS, abs=60)]
    (old,) = files()
    entry = json.loads(old.read_text())
    old.write_text(json.dumps({**entry, "expires_at": (datetime.now(UTC) - timedelta(seconds=9)).isoformat()}))
    with served(tmp_path) as server, httpx.Client() as bad:
        assert flood(server.url, bad) > 100
        until(lambda: not old.exists(), "the expired file is removed")
        assert sum(path.stat().st_size for path in files()) < 2 * LIMIT
        assert log_in(server.url)
        assert [each for each in files().values() if seconds(each) == pytest.approx(USED_SECONDS, abs=60)]


def test_only_expired_files_are_removed(tmp_path: Path) -> None:
    """Files that are not expired, and files that are not readable, stay."""
    now = datetime.now(UTC)
    texts = {
        "later": json.dumps({"expires_at": (now + timedelta(hours=1)).isoformat()}),
        "expired": json.dumps({"expires_at": (now - timedelta(hours=1)).isoformat()}),
        "no-expiry": json.dumps({"value": {}}),
        "no-object": "[]",
        "broken": "{",
    }
    (tmp_path / "clients").mkdir()
    for name, text in texts.items():
        (tmp_path / "clients" / f"{name}.json").write_text(text)
    remove_expired(tmp_path)
    assert {path.stem for path in tmp_path.glob("*/*.json")} == texts.keys() - {"expired"}


@pytest.mark.anyio
async def test_all_addresses_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit of all addresses, a replica refuses new registrations with 503. The next period begins anew."""
    clock = Clock()
    monkeypatch.setattr("anyreplica.features.login.limits.time.time", clock)
    stored = StoredBytes(None, most=5000)
    for number in range(5):
        await stored.check(f"{number}")
        with answering(LoginRequest(f"{number}", counts=True)):
            await stored.add(1000)
    with pytest.raises(Refused, match="too many registrations and logins") as refused:
        await stored.check("another")
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "200")
    with answering(LoginRequest("another", counts=False)):
        await stored.add(1000)
    clock.now += 600
    await stored.check("another")
