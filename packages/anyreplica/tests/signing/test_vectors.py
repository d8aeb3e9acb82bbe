"""The RFC's own example of an Ed25519 signature (RFC 9421, appendix B.2.6, with the key of B.1.4)."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from http_message_signatures import InvalidSignature

from anyreplica.features.signatures.signed_requests import Received, _Verifier
from anyreplica.signing.keypair import private_key, public_key
from tests.signing.calls import Call, refusal

KEY_ID = "test-key-ed25519"
PUBLIC = "ed25519:JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="
PRIVATE = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----
"""
COVERED = '("date" "@method" "@path" "@authority" "content-type" "content-length")'
SIGNATURE = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="

MESSAGE = Call(
    path="/foo",
    query="param=Value&Pet=dog",
    body=b'{"hello": "world"}',
    headers=(
        ("host", "example.com"),
        ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
        ("content-type", "application/json"),
        ("content-length", "18"),
        ("signature-input", f'sig-b26={COVERED};created=1618884473;keyid="{KEY_ID}"'),
        ("signature", f"sig-b26=:{SIGNATURE}:"),
    ),
)


def verified(call: Call) -> list[Any]:
    """Return the results of verifying the signature without the other checks of `Signatures`, such as the nonce."""

    def check(_: object, parameters: Mapping[str, Any]) -> None:
        assert parameters == {"created": 1_618_884_473, "keyid": KEY_ID}

    verifier = _Verifier({KEY_ID: public_key(PUBLIC)}.get, check)
    return verifier.verify(Received(call.scope), max_age=None)


def test_the_example_is_valid_but_can_be_repeated() -> None:
    """The signature of the example is valid. The server refuses it only because it has no nonce."""
    (result,) = verified(MESSAGE)
    assert result.covered_components['"@path"'] == "/foo"
    assert refusal(MESSAGE) == "The signature must have the parameter nonce."


def test_the_private_key_makes_it() -> None:
    """The private key makes exactly this signature, because Ed25519 uses no randomness."""
    text = f"""\
"date": Tue, 20 Apr 2021 02:07:55 GMT
"@method": POST
"@path": /foo
"@authority": example.com
"content-type": application/json
"content-length": 18
"@signature-params": {COVERED};created=1618884473;keyid="{KEY_ID}\""""
    assert base64.b64encode(private_key(PRIVATE).sign(text.encode())).decode() == SIGNATURE


@pytest.mark.parametrize(
    "changed", [replace(MESSAGE, path="/fo"), replace(MESSAGE, method="GET"), MESSAGE.replace("date", "today")]
)
def test_a_change_makes_it_wrong(changed: Call) -> None:
    """A change of any covered part makes the signature invalid."""
    with pytest.raises(InvalidSignature):
        verified(changed)
