"""Tests of key pairs, valid and invalid."""

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from anyreplica.signing.keypair import new_pair, private_key, public_key, public_text


def test_a_pair_fits() -> None:
    """The public key of a pair verifies a signature of its private key."""
    pem, public = new_pair()
    public_key(public).verify(private_key(pem.encode()).sign(b"text"), b"text")
    assert public_text(public_key(public)) == public
    assert new_pair() != (pem, public)


@pytest.mark.servers
def test_openssl_reads_our_pairs(tmp_path: Path) -> None:
    """A person who computes the public key of our pair with openssl gets the same text."""
    pem, public = new_pair()
    (tmp_path / "key.pem").write_text(pem)
    command = 'echo "ed25519:$(openssl pkey -in "$0" -pubout -outform DER | tail -c 32 | base64)"'
    done = subprocess.run(["bash", "-ec", command, tmp_path / "key.pem"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == public


RAW = base64.b64encode(bytes(32)).decode()


@pytest.mark.parametrize(
    "text",
    [
        *("", "é", "ed25519:!", RAW, f"rsa:{RAW}", f"ed25519: {RAW}", f"ed25519:{RAW}".replace("=", "=\n")),
        *(f"ed25519:{base64.b64encode(b'x' * size).decode()}" for size in (0, 31, 33, 64)),
    ],
)
def test_an_invalid_public_key_is_refused(text: str) -> None:
    """An invalid public key is refused with one sentence. A public key has only one valid form."""
    said = r"^The public key is not valid; write it as ed25519: and the base64 of its 32 bytes\.$"
    with pytest.raises(ValueError, match=said):
        public_key(text)


def test_an_invalid_private_key_is_refused() -> None:
    """Invalid data, a key of another kind, a key with a password, and a public key are not valid private keys."""
    curve = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    secret = BestAvailableEncryption(b"hunter2")
    locked = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret)
    pem, public = new_pair()
    said = r"^The private key is not valid; use an Ed25519 key in PEM format without a password\.$"
    for data in (b"", b"\xff\x00", curve, locked, public.encode(), pem.encode()[:60]):
        with pytest.raises(ValueError, match=said):
            private_key(data)
