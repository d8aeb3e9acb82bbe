"""Tests of a signature's parameters: its times, its key and its nonce."""

from typing import Any

import pytest

from anyreplica.features.signatures.nonces import Nonces
from anyreplica.features.signatures.signed_requests import Signatures
from tests.signing.calls import CALL, DIGESTED, NONCE, NOW, PARAMETERS, USUAL, check, key_of, refusal, signatures

FUTURE = "The signature was created in the future; check the clocks of client and server."
OLD = "The signature is older than {} s; sign again and check both clocks."


@pytest.mark.parametrize(
    ("at", "bounds", "said"),
    [
        *((at, {}, "") for at in (-5, 0, 60)),
        *((at, {}, FUTURE) for at in (-10_000, -5.1)),
        *((at, {}, OLD.format(60)) for at in (60.1, 10_000)),
        (10, {"max_age": 10, "skew": 0}, ""),
        (10.5, {"max_age": 10, "skew": 0}, OLD.format(10)),
        (-0.5, {"max_age": 10, "skew": 0}, FUTURE),
    ],
)
def test_a_signature_is_valid_for_60_seconds(at: float, bounds: dict[str, Any], said: str) -> None:
    """A signature is valid from 5 s before its creation, as clocks differ, to 60 s after it, or as the server says."""
    checking = signatures(clock=lambda: NOW + at, **bounds)
    if said:
        assert refusal(CALL.signed(), checking) == said
    else:
        assert check(CALL.signed(), checking) == "ci"


@pytest.mark.parametrize(("expires", "good"), [(NOW + 4, False), (NOW + 5, True), (NOW + 10_000, True), (-5, False)])
def test_a_signature_is_refused_after_it_expires(expires: int, good: bool) -> None:
    """A signature is refused 5 s after `expires`, and a late `expires` does not make it valid for longer."""
    call = DIGESTED.signed_over(USUAL, f"{PARAMETERS};expires={expires}")
    checking = signatures(clock=lambda: NOW + 10)
    if good:
        assert check(call, checking) == "ci"
    else:
        assert refusal(call, checking) == "The signature has expired; sign the request again."
    assert "older than" in refusal(call, signatures(clock=lambda: NOW + 61))


def test_nonces_must_live_as_long_as_signatures() -> None:
    """Nonces must be stored for as long as a signature is valid, so that no request can be repeated later."""
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
    assert said in refusal(DIGESTED.signed_over(USUAL, parameters))


@pytest.mark.parametrize("length", [8, 128])
def test_nonces_of_either_length(length: int) -> None:
    """A nonce of the minimum or the maximum length is accepted."""
    assert check(DIGESTED.signed_over(USUAL, PARAMETERS.replace(NONCE, "n" * length))) == "ci"
