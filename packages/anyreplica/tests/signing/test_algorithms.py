"""The key alone decides the algorithm of a signature."""

import base64
import hmac

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from anyreplica.signing.keypair import public_text
from tests.signing.calls import DIGESTED, KEY, PARAMETERS, USUAL, WRONG, refusal, signed_text

OTHER = "Unexpected algorithm specified in the signature."


@pytest.mark.parametrize(
    "alg", ["hmac-sha256", "none", "rsa-pss-sha512", "rsa-v1_5-sha256", "ecdsa-p256-sha256", "Ed25519", ""]
)
def test_the_request_cannot_choose_the_algorithm(alg: str) -> None:
    """A valid signature that names another algorithm is refused."""
    assert refusal(DIGESTED.signed_over(USUAL, f'{PARAMETERS};alg="{alg}"')) == OTHER


@pytest.mark.parametrize("alg", ["", ';alg="hmac-sha256"', ';alg="ed25519"'])
def test_a_public_key_is_no_secret(alg: str) -> None:
    """An HMAC with the public key as its secret is refused."""
    public = KEY.public_key()
    texts = [public.public_bytes_raw(), public_text(public).encode()]
    texts += [public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)]
    texts += [public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo), b""]
    call = DIGESTED.signed_over(USUAL, PARAMETERS + alg)
    for secret in texts:
        forged = base64.b64encode(hmac.digest(secret, signed_text(USUAL, PARAMETERS + alg), "sha256")).decode()
        assert refusal(call.replace("signature", f"sig=:{forged}:")) in (WRONG, OTHER)


def test_a_signature_of_another_kind() -> None:
    """An RSA signature and a signature of wrong length are refused."""
    made = generate_private_key(65537, 2048).sign(signed_text(USUAL), padding.PKCS1v15(), hashes.SHA256())
    call = DIGESTED.signed_over(USUAL)
    for raw in (made, b"", bytes(63), bytes(64), bytes(65)):
        assert refusal(call.replace("signature", f"sig=:{base64.b64encode(raw).decode()}:")) == WRONG
