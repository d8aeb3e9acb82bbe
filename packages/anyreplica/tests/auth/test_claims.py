"""Tokens with odd or missing claims and headers; each signature is valid."""

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyreplica.auth.caller import Caller
from anyreplica.features.keys.tokens import Tokens
from anyreplica.settings.rate import NO_RATE
from conftest import generated
from tests.auth.issuer import AUDIENCE, NAME, Issuer

Check = Callable[[str], Caller | None]


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """Return an issuer that signs with a fast algorithm."""
    made = Issuer()
    made.rotate("fast", "ES256")
    return made


@pytest.fixture(scope="module")
def check(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Check]:
    """Return a function that finds a token's caller with the real verifier."""
    file = tmp_path_factory.mktemp("claims") / "jwks.json"
    file.write_text(json.dumps(issuer.public))
    with asyncio.Runner() as runner:
        tokens = Tokens(NAME, [AUDIENCE], str(file), ["ES256"], NO_RATE)
        yield lambda token: runner.run(tokens.caller(token.encode()))
        runner.run(tokens.close())


def with_claim(issuer: Issuer, name: str, value: str) -> str:
    """Return a token with one claim that is given as JSON text."""
    claims = issuer.claims(**{name: None})
    return issuer.signed(f'{{"{name}": {value}, {json.dumps(claims)[1:]}'.encode())


APP = {"client_id": "app"}


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        *((claims, None) for claims in ({}, {"sub": ""}, {"client_id": ""}, {"azp": 5})),
        *(({"sub": empty, **APP}, None) for empty in ("", None)),
        ({"sub": "ada", **APP}, "jwt:ada"),
        ({**APP, "azp": "other"}, "jwt-client:app"),
        ({"azp": "app"}, "jwt-client:app"),
    ],
)
def test_which_claim_names_the_caller(issuer: Issuer, check: Check, claims: dict[str, Any], name: str | None) -> None:
    """The claim `sub` names the caller; without it `client_id`, and then `azp`.

    A token that has none of them is refused. No claim replaces an empty or null subject.
    """
    caller = check(issuer.signed(json.dumps({**issuer.claims(sub=None), **claims}).encode()))
    assert (caller and caller.name) == name


def test_a_subject_and_a_client_of_one_name_are_two_callers(issuer: Issuer, check: Check) -> None:
    """A subject and a client of the same name are two callers with separate rate limits and jobs."""
    subject, client = check(issuer.token(sub="x")), check(issuer.token(sub=None, client_id="x"))
    assert subject is not None
    assert client is not None
    assert (subject.name, client.name) == ("jwt:x", "jwt-client:x")
    assert subject.identity == subject.owner != client.identity == client.owner


@given(sub=st.text(), client=st.text())
@example(sub="client:x", client="x")
@example(sub="-client:x", client="x")
@example(sub="jwt-client:x", client="x")
def test_a_subject_never_has_the_name_of_a_client(issuer: Issuer, check: Check, sub: str, client: str) -> None:
    """A subject and a client never have the same caller name, whatever their texts are."""
    first, second = check(issuer.token(sub=sub)), check(issuer.token(sub=None, client_id=client))
    assert first is None or second is None or first.name != second.name


NO_DATES = (
    *("1e999", "-1e999", "Infinity", "-Infinity", "NaN", "1" + "0" * 400, "-1" + "0" * 400, "1" + "0" * 5000),
    *("1e300", "253402300800", "-1", '"1"', '"4000000000"', "true", "false", "null", "[]", "[4000000000]", "{}"),
)


DATES = [("exp", "4000000000.5"), ("exp", "253402300799"), ("nbf", "0"), ("nbf", "1e9"), ("iat", "1.5")]


@pytest.mark.parametrize(
    ("claim", "value", "valid"),
    [
        *((claim, value, True) for claim, value in DATES),
        *((claim, value, False) for claim in ("exp", "nbf", "iat") for value in NO_DATES),
    ],
)
def test_a_date_is_a_number_of_seconds(issuer: Issuer, check: Check, claim: str, value: str, valid: bool) -> None:
    """A date is a number of seconds, with or without a fraction, up to the year 9999 (RFC 7519, section 2).

    A token with another date is refused. An infinite number is invalid, too, so that no token lasts forever.
    """
    assert (check(with_claim(issuer, claim, value)) is not None) == valid


NUMBERS = st.integers() | st.floats() | st.sampled_from([math.inf, -math.inf, math.nan, 10**400, -(10**400)])
SURROGATES = st.text(st.characters(codec=None, categories=["Cs", "Cc", "Ll", "Zs"]), max_size=5)
PLAIN = st.none() | st.booleans() | NUMBERS | st.text(max_size=20) | SURROGATES | st.sampled_from([AUDIENCE, NAME])
VALUES = st.recursive(
    PLAIN, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3)
)
CLAIMS = ("iss", "aud", "sub", "exp", "nbf", "iat", "jti", "scope", "scp", "client_id", "azp", "cnf", "")
HEADERS = ("alg", "kid", "typ", "cty", "crit", "b64", "jwk", "jku", "x5c", "x5u", "x5t", "")


@generated(300)
@given(st.dictionaries(st.sampled_from(CLAIMS), VALUES, min_size=1, max_size=4))
@example({"exp": math.inf})
@example({"exp": 10**400})
@example({"nbf": math.nan})
@example({"sub": "\ud800"})
@example({"exp": 1, "client_id": "\ud800"})
@example({"aud": {"a": ["\ud800"]}, "client_id": [math.inf]})
@example({"scope": ["\ud800"]})
@example({"scope": [["mcp"]], "scp": "mcp"})
def test_no_claim_is_an_error(issuer: Issuer, check: Check, claims: dict[str, Any]) -> None:
    """Odd claims cause no error: the token is refused, or has a caller's name, an expiry date and texts as scopes."""
    caller = check(issuer.signed(json.dumps({**issuer.claims(), **claims}).encode()))
    if caller is None:
        return
    token = caller.access_token
    said = token.claims or {}
    assert caller.name == f"jwt:{said['sub']}"
    assert said["iss"] == NAME
    assert said["aud"] == AUDIENCE or AUDIENCE in said["aud"]
    assert all(isinstance(scope, str) for scope in token.scopes)
    assert time.time() - 10 < said["exp"] < 253_402_300_800
    assert not said.get("nbf", 0) > time.time()
    assert all(type(said[name]) in (int, float) for name in ("exp", "nbf", "iat") if name in said)


@generated(300)
@given(st.dictionaries(st.sampled_from(HEADERS), VALUES, min_size=1, max_size=4))
@example({"alg": ["ES256"]})
@example({"alg": {"ES256": 1}})
@example({"alg": math.inf})
@example({"kid": ["fast"]})
@example({"kid": {"fast": 1}})
@example({"kid": math.nan})
@example({"kid": "\ud800"})
@example({"crit": ["exp"], "exp": 1})
def test_no_header_is_an_error(issuer: Issuer, check: Check, headers: dict[str, Any]) -> None:
    """Odd headers never cause an error: the token is refused, or it is valid and names the algorithm."""
    caller = check(issuer.signed(json.dumps(issuer.claims()).encode(), headers))
    assert caller is None or headers.get("alg", "ES256") == "ES256"


@pytest.mark.parametrize(
    "payload", [b"[" * 8000, b'{"a":' * 2000, b"[]", b"5", b"null", b'""', b"NaN", b"\xff", b"\xff\xfe{\x00}\x00", b""]
)
def test_claims_that_are_not_an_object_are_refused(issuer: Issuer, check: Check, payload: bytes) -> None:
    """Claims that are not a JSON object are refused, however deep they are."""
    assert check(issuer.signed(payload)) is None
