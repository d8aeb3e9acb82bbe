"""What Redis stores of logins: encrypted, with an expiry, under names that tell nothing."""

import json
import re

import httpx
import pytest

from conftest import until
from tests.auth.login.assertions import CimdClient, identity_assertion
from tests.auth.login.browser import Browser
from tests.auth.login.fleets import LoginFleet
from tests.auth.login.flow import REDIRECT, OAuthClient, post
from tests.auth.login.server import SECRET
from tests.auth.login.test_flow import may_call
from tests.calls import HEADERS, request
from tests.replicas import KEYS

pytestmark = pytest.mark.needs("redis")

OLD, NEW = KEYS, "a-new-key-that-takes-the-place-of-the-old-one"
_JWT = re.compile(r"eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+")


@pytest.mark.needs("node")
def test_every_key_expires_and_no_value_is_readable(login_fleet: LoginFleet, browser: Browser) -> None:
    """After each step, every key of a login has an expiry, and Redis contains no token, code, secret or name."""
    redis = login_fleet.redis
    client, assertions = OAuthClient(login_fleet.url), CimdClient(login_fleet, key=True)
    browser.user = "ada.of.the.tests"
    secrets = [SECRET, browser.user, REDIRECT, "the-state-of-the-client"]

    def look() -> None:
        found = redis.entries("*:login:*")
        assert found
        for key, (_, seconds) in found.items():
            assert seconds != -1, key
            assert re.fullmatch(r"template-mcp:login:[a-z-]+:[0-9a-f]{64}", key), key
        text = json.dumps(found)
        for secret in secrets:
            assert secret not in text, secret
        assert not _JWT.search(text)

    client.register(login_fleet.url)
    secrets.append(client.id)
    look()
    answer = browser.log_in(client.authorization(login_fleet.url), REDIRECT, lambda _: look())
    secrets.append(answer["code"])
    look()
    tokens = client.exchange(login_fleet.url, answer["code"]).json()
    secrets += [tokens["access_token"], tokens["refresh_token"]]
    look()
    renewed = client.refresh(login_fleet.url, tokens["refresh_token"]).json()
    secrets += [renewed["access_token"], renewed["refresh_token"]]
    look()
    client.revoke(login_fleet.url, renewed["access_token"])
    look()
    said = assertions.assertion()
    assertions.exchange(login_fleet.url, assertions.code(login_fleet.url, browser), **said)
    vouched = identity_assertion(login_fleet.issuer, client)
    post(f"{login_fleet.url}/token", data=vouched)
    secrets += [said["client_assertion"], vouched["assertion"]]
    look()


@pytest.mark.needs("node")
def test_a_login_survives_the_rotation_of_keys(fleet: LoginFleet) -> None:
    """Tokens and clients stay valid while the old key is the second one, and end when it is gone."""
    client = OAuthClient(fleet.url)
    tokens = client.log_in(fleet.url)
    for ring in (f"{OLD}\n{NEW}", f"{NEW}\n{OLD}"):
        for number in (1, 2, 3):
            fleet.restart(number, REQUEST_STATE_KEYS=ring)
            assert all(may_call(url, tokens["access_token"]) for url in fleet.urls), ring
            tokens = client.refresh(fleet.url, tokens["refresh_token"]).json()
    assert OAuthClient(fleet.url).log_in(fleet.url)
    last = client.log_in(fleet.url)
    for number in (1, 2, 3):
        fleet.restart(number, REQUEST_STATE_KEYS=NEW)
    assert all(may_call(url, last["access_token"]) for url in fleet.urls), "new tokens are signed with the new key"
    fleet.restart(1, REQUEST_STATE_KEYS="a-third-key-which-has-nothing-to-do-with-it")
    assert not may_call(fleet.urls[0], last["access_token"])


@pytest.mark.needs("node")
def test_without_redis_logins_are_refused_until_it_answers(fleet: LoginFleet, browser: Browser) -> None:
    """Without Redis, each step gets HTTP 503, so that a client keeps its tokens and tries again later."""
    client = OAuthClient(fleet.url)
    tokens = client.log_in(fleet.url)
    spare = OAuthClient(fleet.url)
    spare.register(fleet.url)
    code = spare.code(fleet.url, browser)
    vouched = identity_assertion(fleet.issuer, client)
    headers = {**HEADERS, "Authorization": f"Bearer {tokens['access_token']}"}
    fleet.redis.keep()
    until(lambda: "aof_rewrite_in_progress:0" in fleet.redis.ask("info", "persistence"), "the data is on disk")
    fleet.redis.kill()
    steps = {
        "call": post(f"{fleet.url}/mcp", json=request("tools/list"), headers=headers),
        "register": OAuthClient(fleet.url).register(fleet.url),
        "authorize": httpx.get(client.authorization(fleet.url)),
        "consent": httpx.get(f"{fleet.url}/consent?txn_id=x"),
        "callback": httpx.get(f"{fleet.url}/auth/callback?code=x&state=y"),
        "token": spare.exchange(fleet.url, code),
        "refresh": client.refresh(fleet.url, tokens["refresh_token"]),
        "assertion": post(f"{fleet.url}/token", data=vouched),
        "revoke": client.revoke(fleet.url, tokens["access_token"]),
    }
    assert {name: reply.status_code for name, reply in steps.items()} == dict.fromkeys(steps, 503)
    assert all("retry-after" in reply.headers for reply in steps.values())
    assert steps["token"].json()["error"] == "temporarily_unavailable"
    logged = "".join(replica.output for replica in fleet.replicas)
    assert "Redis can't be reached: logins are refused" in logged
    fleet.redis.start()
    assert may_call(fleet.url, tokens["access_token"])
    assert spare.exchange(fleet.url, code).status_code == 200, "the code was not used up"
    assert client.refresh(fleet.url, tokens["refresh_token"]).status_code == 200
    assert post(f"{fleet.url}/token", data=vouched).status_code == 200
