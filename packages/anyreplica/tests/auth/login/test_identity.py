"""The identity and the scopes of a user reach tools, lists, rate limits, jobs and the audit log, as a key's do."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import httpx
import pytest
from fastmcp.server.auth import AccessToken, MultiAuth, StaticTokenVerifier
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.auth.caller import readable
from anyreplica.features.keys.key import hash_of
from anyreplica.features.login.login import Identities
from anyreplica.settings.rate import NO_RATE
from conftest import Server, generated, until
from tests.auth.login.assertions import identity_assertion
from tests.auth.login.fleets import LoginFleet, logins
from tests.auth.login.flow import OAuthClient, post
from tests.calls import get, legacy, modern, text

KEY = "a-key-with-more-than-32-characters-for-a-program"
RATE = 30


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginFleet]:
    """Three replicas with a login, keys, jobs, a rate limit and an audit log."""
    folder = tmp_path_factory.mktemp("identities")
    (folder / "keys").write_text(json.dumps({"id": "program", "hash": hash_of(KEY), "scopes": ["reports:read"]}) + "\n")
    settings = {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(folder / "keys"), "AUDIT_LOG": "stdout"}
    settings |= {"RATE_LIMIT": f"{RATE}/d", "RATE_BURST": str(RATE)}
    with logins(folder, 3, 300, jobs=True, **settings) as fleet:
        yield fleet


def bearer(token: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"Authorization": f"Bearer {token}"}


def names(reply: httpx.Response) -> set[str]:
    """Return the names of the listed tools."""
    return {tool["name"] for tool in reply.json()["result"]["tools"]}


def said(reply: httpx.Response) -> str:
    """Return the text of a tool's result."""
    return text(reply.json()["result"])


@pytest.mark.needs("node")
@pytest.mark.needs("redis")
class TestReplicas:
    """Tests with real replicas."""

    def test_a_scope_decides_what_a_user_sees(self, fleet: LoginFleet) -> None:
        """At every replica and in both protocols, a tool knows its user, and does not exist without its scope."""
        weak = OAuthClient(fleet.url).log_in(fleet.url, "linus", scope="mcp")["access_token"]
        strong = OAuthClient(fleet.url).log_in(fleet.url, "linus")["access_token"]
        called = {"name": "read_report", "arguments": {}}
        for url in fleet.urls:
            for ask in (legacy, modern):
                assert "read_report" not in names(ask(url, "tools/list", {}, **bearer(weak)))
                assert "read_report" in names(ask(url, "tools/list", {}, **bearer(strong)))
                assert said(ask(url, "tools/call", called, **bearer(strong))) == "for linus"
            hidden = legacy(url, "tools/call", called, **bearer(weak)).text
            absent = legacy(url, "tools/call", {**called, "name": "nope"}, **bearer(weak)).text
            assert hidden == absent.replace("nope", "read_report")

    def test_a_key_works_beside_the_login(self, fleet: LoginFleet) -> None:
        """A program uses its key at the same server, and needs no scope of the login."""
        for url in fleet.urls:
            called = {"name": "read_report", "arguments": {}}
            assert said(legacy(url, "tools/call", called, **bearer(KEY))) == "for key:program"

    def test_a_user_has_one_rate_limit_at_all_replicas(self, fleet: LoginFleet) -> None:
        """All clients of a user share the limit, and another user has another limit."""
        tokens = [OAuthClient(fleet.url).log_in(fleet.url, "edsger")["access_token"] for _ in range(2)]
        replies = [legacy(fleet.url, "ping", {}, **bearer(tokens[number % 2])) for number in range(RATE + 3)]
        assert [reply.status_code for reply in replies] == [200] * RATE + [429] * 3
        other = OAuthClient(fleet.url).log_in(fleet.url, "barbara")["access_token"]
        assert legacy(fleet.url, "ping", {}, **bearer(other)).status_code == 200

    def test_a_job_belongs_to_its_user(self, fleet: LoginFleet) -> None:
        """Only its user finds a job, at every replica with every client; a namesake at another issuer does not."""
        client = OAuthClient(fleet.url)
        mine, also_mine = (each.log_in(fleet.url, "alan")["access_token"] for each in (client, OAuthClient(fleet.url)))
        other = OAuthClient(fleet.url).log_in(fleet.url, "alonzo")["access_token"]
        assertion = identity_assertion(fleet.issuer, client, sub="alan")
        vouched = post(f"{fleet.url}/token", data=assertion).json()["access_token"]
        body = {"job": "generate_report", "params": {"rows": 5}}
        submitted = post(f"{fleet.urls[0]}/jobs", json=body, headers=bearer(mine))
        assert submitted.status_code == 202, submitted.text
        path = f"/jobs/{submitted.json()['id']}"
        for url in fleet.urls:
            assert get(url + path, headers=bearer(also_mine)).status_code == 200
            assert [get(url + path, headers=bearer(each)).status_code for each in (other, vouched, KEY)] == [404] * 3
            assert get(url + path).status_code == 401

    def test_the_audit_log_names_the_user(self, fleet: LoginFleet) -> None:
        """Each call of a user is an entry with the user's name, and the logs contain no token."""
        token = OAuthClient(fleet.url).log_in(fleet.url, "margaret")["access_token"]
        for url in fleet.urls:
            called = legacy(url, "tools/call", {"name": "echo", "arguments": {"message": "x"}}, **bearer(token))
            assert called.status_code == 200
        for server in fleet.replicas:
            until(partial(has_echo, server, "login:margaret@"), "the call is in the audit log")
            assert token not in server.output


def has_echo(server: Server, caller: str) -> bool:
    """Return whether the audit log of a replica has exactly one call of `echo`, and its caller's name begins so."""
    entries = [json.loads(line) for line in server.output.splitlines() if line.startswith('{"audit":1')]
    callers = [entry["caller"] for entry in entries if entry.get("name") == "echo"]
    return len(callers) == 1 and callers[0].startswith(caller)


def token(**changes: Any) -> AccessToken:
    """Return a verified token."""
    return AccessToken(**{"token": "t", "client_id": "c", "scopes": [], **changes})


IDENTITIES = Identities(StaticTokenVerifier(tokens={}), NO_RATE)


def test_the_owner_is_the_user_of_an_issuer() -> None:
    """Clients do not matter, and the same subject of another issuer is somebody else."""
    mine = IDENTITIES.caller(token(claims={"sub": "ada", "iss": "https://a"}))
    assert mine.name == "login:ada@a"
    assert mine.identity == mine.owner
    assert mine.owner == IDENTITIES.caller(token(client_id="d", claims={"sub": "ada", "iss": "https://a"})).owner
    others = [
        token(claims={"sub": "ada", "iss": "https://b"}),
        token(claims={"sub": "ada"}),
        token(claims={"sub": "eve", "iss": "https://a"}),
        token(client_id="ada", claims={"iss": "https://a"}),
        token(client_id="ada"),
    ]
    callers = [mine, *map(IDENTITIES.caller, others)]
    for value in ("owner", "identity", "name"):
        assert len({getattr(each, value) for each in callers}) == len(callers)


ISSUERS = [
    None,
    "https://a",
    "https://a/",
    "http://a",
    "a",
    "//a",
    "https:////a",
    "https://",
    "https://http://a",
    "a@b",
]
SUBJECTS = ["ada", "ada@a", "ada%40a", "ada@@first", "ada>b", "ada@", "@", "%", "a" * 300]
SOURCES = [None, "first", "a", '["first"]']


def test_no_two_callers_have_the_same_name() -> None:
    """Each combination of subject, issuer and provider has a name of its own, also if one looks like another."""
    of_parts = [(*parts, readable(*parts)) for parts in product(SUBJECTS, ISSUERS, SOURCES)]
    names = [each[-1] for each in of_parts]
    names += map(readable, [name for name in names if name.startswith("sha256-")])
    assert len(set(names)) == len(names)
    values = product(["ada", "ada@a"], [None, "https://a", "https://a/", "a", "StaticTokenVerifier"])
    tokens = [token(claims={"sub": sub, "iss": issuer}) for sub, issuer in values]
    for value in ("name", "identity", "owner"):
        assert len({getattr(IDENTITIES.caller(each), value) for each in tokens}) == len(tokens)


@generated(300)
@given(st.lists(st.tuples(st.text("ab@%/:>"), st.none() | st.text("a@%/:"), st.none() | st.text("a@%/:")), unique=True))
def test_names_of_any_parts(parts: list[tuple[str, str | None, str | None]]) -> None:
    """Different parts have different names."""
    assert len({readable(*each) for each in parts}) == len(parts)


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"sub": "ada", "iss": "https://login.example.com"}, "login:ada@login.example.com"),
        ({"sub": "auth0|5f7c", "iss": "https://a.auth0.com/"}, "login:auth0|5f7c@a.auth0.com/"),
        ({"sub": "ada@example.com", "iss": "https://a"}, "login:ada%40example.com@a"),
        ({"sub": "ada", "iss": "http://localhost:9000/realm"}, "login:ada@http://localhost:9000/realm"),
        ({"sub": "ada", "iss": "accounts.google.com"}, "login:ada@//accounts.google.com"),
        ({"sub": "ada"}, "login:ada"),
    ],
)
def test_names_are_readable(claims: dict[str, str], name: str) -> None:
    """An operator finds subject and issuer in the name."""
    assert IDENTITIES.caller(token(claims=claims)).name == name


@pytest.mark.parametrize("subject", ["a\nb", "x" * 300, "\x1b[31m", "a\u202eb"])
def test_names_are_printable_and_short(subject: str) -> None:
    """A name that could forge a log line is replaced by its hash."""
    caller = IDENTITIES.caller(token(claims={"sub": subject, "iss": "https://a"}))
    assert caller.name.startswith("login:sha256-")
    assert caller.name.isprintable()
    assert len(caller.name) < 60


@pytest.mark.parametrize("subject", [None, "", 7, ["ada"]])
def test_a_subject_that_is_no_text_is_no_user(subject: object) -> None:
    """A token whose `sub` is not a text belongs to its client."""
    assert IDENTITIES.caller(token(claims={"sub": subject})).name == "login-client:c"


@pytest.mark.anyio
async def test_the_users_of_two_providers_are_different() -> None:
    """Inside MultiAuth, the same subject of two providers is two users, also in the rate limit and the log."""
    one, other = (StaticTokenVerifier(tokens={name: {"client_id": "c", "sub": "ada"}}) for name in ("one", "other"))
    auth = MultiAuth(verifiers={"first": one, "second": other})
    verified = [await auth.verify_token(name) for name in ("one", "other")]
    callers = [Identities(auth, NO_RATE).caller(each) for each in verified if each is not None]
    assert [caller.name for caller in callers] == ["login:ada@@first", "login:ada@@second"]
    assert callers[0].owner != callers[1].owner
