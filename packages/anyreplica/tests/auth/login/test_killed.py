"""A replica is killed in the middle of a login. The login goes on at the other replicas."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from conftest import until
from tests.auth.login.browser import Browser
from tests.auth.login.fleets import LoginFleet
from tests.auth.login.flow import REDIRECT, OAuthClient
from tests.auth.login.test_flow import may_call

pytestmark = [pytest.mark.slow, pytest.mark.needs("node"), pytest.mark.needs("redis")]


def number_of(fleet: LoginFleet, reply: httpx.Response) -> int:
    """Return the number of the replica that sent a reply."""
    return fleet.replicas.index(fleet.named(reply.headers["x-served-by"])) + 1


@pytest.mark.parametrize("step", ["register", "authorize", "consent page", "consent", "callback", "token", "refresh"])
def test_the_replica_of_a_step_is_killed_after_the_step(fleet: LoginFleet, browser: Browser, step: str) -> None:
    """The replica that served a step is killed, and another replica serves the next step."""
    client = OAuthClient(fleet.url)
    begun = client.register(fleet.url)
    replies = {"register": begun}

    def kill_after(name: str, reply: httpx.Response) -> None:
        replies[name] = reply
        if name == step:
            fleet.kill(number_of(fleet, reply))

    kill_after("register", begun)
    names = iter(["authorize", "consent page", "consent", "callback"])

    def between(reply: httpx.Response) -> None:
        if "x-served-by" in reply.headers:
            kill_after(next(names), reply)

    code = browser.log_in(client.authorization(fleet.url), REDIRECT, between)["code"]
    granted = client.exchange(fleet.url, code)
    assert granted.status_code == 200, granted.text
    kill_after("token", granted)
    assert all(may_call(fleet.url, granted.json()["access_token"]) for _ in range(3))
    renewed = client.refresh(fleet.url, granted.json()["refresh_token"])
    assert renewed.status_code == 200, renewed.text
    kill_after("refresh", renewed)
    assert all(may_call(fleet.url, renewed.json()["access_token"]) for _ in range(3))
    assert len(fleet.proxy.ports) == 2, "one replica was killed"


def unread(port: int) -> int:
    """Return how many bytes the process that listens on a port has not read yet (proc(5), /proc/net/tcp)."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].partition(":")[2], 16) for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01")


def test_a_replica_is_killed_during_a_refresh(fleet: LoginFleet) -> None:
    """A replica is killed while it waits for Redis. The client sends the refresh token again and gets new tokens."""
    client = OAuthClient(fleet.url)
    token = client.log_in(fleet.url)["refresh_token"]
    fleet.redis.hang()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(client.refresh, fleet.urls[0], token)
        until(lambda: unread(fleet.redis.port) > 0, "a replica waits for Redis")
        fleet.kill(1)
        fleet.redis.go_on()
        assert isinstance(first.exception(), httpx.HTTPError)
    renewed = client.refresh(fleet.url, token)
    assert renewed.status_code == 200, renewed.text
    assert may_call(fleet.url, renewed.json()["access_token"])
