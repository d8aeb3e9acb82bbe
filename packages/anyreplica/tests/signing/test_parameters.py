"""Tests of a signature's parameters: its times, its key and its nonce."""

from typing import Any

import pytest

from anyreplica.features.signatures.nonces import Nonces
from anyreplica.features.signatures.verify import Signatures
from tests.signing.calls import (
    CALL,
    DIGEST,
    DIGESTED,
    METHOD,
    NONCE,
    NOW,
    PARAMETERS,
    PATH,
    Clock,
    check,
    key_of,
    refusal,
    signatures,
)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (-5.1, "The signature was created in the future; check the clocks of client and server."),
        (-5, ""),
        (0, ""),
        (60, ""),
        (60.1, "The signature is older than 60 s; sign again and check both clocks."),
        (10_000, "The signature is older than 60 s; sign again and check both clocks."),
        (-10_000, "The signature was created in the future; check the clocks of client and server."),
    ],
)
def test_a_signature_is_valid_for_60_seconds(at: float, said: str) -> None:
    """A signature is valid until 60 s after its creation. It is also valid up to 5 s before, because clocks differ."""
    checking = signatures(clock=Clock(NOW + at))
    call = CALL.signed()
    if said:
        assert refusal(call, checking) == said
    else:
        assert check(call, checking) == "ci"


@pytest.mark.parametrize(("expires", "good"), [(NOW + 4, False), (NOW + 5, True), (NOW + 10_000, True), (-5, False)])
def test_a_signature_is_refused_after_it_expires(expires: int, good: bool) -> None:
    """A signature is refused after `expires`, with 5 s of tolerance.

    A late `expires` does not make a signature valid for longer.
    """
    call = DIGESTED.signed_over([METHOD, PATH, DIGEST], f"{PARAMETERS};expires={expires}")
    checking = signatures(clock=Clock(NOW + 10))
    if good:
        assert check(call, checking) == "ci"
    else:
        assert refusal(call, checking) == "The signature has expired; sign the request again."
    assert "older than" in refusal(call, signatures(clock=Clock(NOW + 61)))


def test_other_limits_of_age_and_tolerance() -> None:
    """A server may set other limits for the age and the tolerance."""
    strict: dict[str, Any] = {"max_age": 10, "skew": 0}
    assert check(CALL.signed(), signatures(clock=Clock(NOW + 10), **strict)) == "ci"
    assert "older than 10 s" in refusal(CALL.signed(), signatures(clock=Clock(NOW + 10.5), **strict))
    assert "future" in refusal(CALL.signed(), signatures(clock=Clock(NOW - 0.5), **strict))


def test_nonces_must_live_as_long_as_signatures() -> None:
    """Nonces must be stored for as long as a signature is valid.

    Otherwise a request could be repeated after its nonce was removed.
    """
    with pytest.raises(ValueError, match="storage time is too short"):
        Signatures(key_of, Nonces(None, "test", 64), max_age=60, skew=5)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ('tag="mcp"', "must have the parameter created and keyid and nonce"),
        (f'keyid="ci";nonce="{NONCE}"', "must have the parameter created"),
        (f'created={NOW};nonce="{NONCE}"', "must have the parameter keyid"),
        (f'created={NOW};keyid="ci"', "must have the parameter nonce"),
        (f'created={NOW};keyid="ci";nonce="1234567"', "must have 8 to 128 characters"),
        (f'created={NOW};keyid="ci";nonce="{"n" * 129}"', "must have 8 to 128 characters"),
        (f'created={NOW};keyid="ci";nonce=12345678', '"nonce" must be a Structured Field String'),
        (f'created={NOW};keyid="ci";nonce=:MTIzNDU2Nzg=:', '"nonce" must be a Structured Field String'),
        (f'created={NOW};keyid=ci;nonce="{NONCE}"', '"keyid" must be a Structured Field String'),
        (f'created={NOW}.0;keyid="ci";nonce="{NONCE}"', '"created" must be a Structured Field Integer'),
        (f'created=@{NOW};keyid="ci";nonce="{NONCE}"', '"created" must be a Structured Field Integer'),
        (f'created="{NOW}";keyid="ci";nonce="{NONCE}"', '"created" must be a Structured Field Integer'),
        (f'created;keyid="ci";nonce="{NONCE}"', '"created" must be a Structured Field Integer'),
        (f"{PARAMETERS};expires=?1", '"expires" must be a Structured Field Integer'),
        (f"{PARAMETERS};created=999999999999999", "in the future"),
        (f"{PARAMETERS};expires=-999999999999999", "has expired"),
        (f"{PARAMETERS};created={10**16}", "Malformed structured header"),
        (f"{PARAMETERS};expires=-{10**16}", "Malformed structured header"),
        (f"{PARAMETERS};version=2", 'Unexpected signature metadata parameter "version"'),
    ],
)
def test_parameters_that_are_missing_or_wrong(parameters: str, said: str) -> None:
    """The error names a missing or wrong parameter."""
    assert said in refusal(DIGESTED.signed_over([METHOD, PATH, DIGEST], parameters))


@pytest.mark.parametrize("length", [8, 128])
def test_nonces_of_either_length(length: int) -> None:
    """A nonce of the minimum or the maximum length is accepted."""
    parameters = PARAMETERS.replace(NONCE, "n" * length)
    assert check(DIGESTED.signed_over([METHOD, PATH, DIGEST], parameters)) == "ci"
