"""Tests of the header Content-Digest."""

import base64
import hashlib

import pytest

from anyreplica.auth.authentication import BadSignature
from anyreplica.features.signatures.signed_requests import check_digest

BODY = b'{"hello": "world"}'


def of(name: str, body: bytes = BODY) -> str:
    """Return a member of the Content-Digest field."""
    digest = hashlib.new(name.replace("-", ""), body).digest()
    return f"{name}=:{base64.b64encode(digest).decode()}:"


@pytest.mark.parametrize(
    "value",
    [
        of("sha-256"),
        of("sha-512"),
        f"{of('sha-256')}, {of('sha-512')}",
        f"unixsum=7, md5=:AAAA:, {of('sha-256')}",
        f"{of('sha-256')};note=1",
        # the digests of this body in RFC 9421, sections 2.4 and B.2
        "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:",
        "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:",
    ],
)
def test_one_matching_digest_is_enough(value: str) -> None:
    """One known digest is enough, and unknown algorithms do not count."""
    check_digest(value, BODY)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (of("sha-256", b"other"), "does not match the request body"),
        (f"{of('sha-256')}, {of('sha-512', b'other')}", "does not match the request body"),
        (f"{of('sha-512', b'other')}, {of('sha-256')}", "does not match the request body"),
        (of("sha-256").replace("256", "512"), "does not match the request body"),
        *((value, "does not match the request body") for value in ("sha-256=::", "sha-256", "sha-256=(:AAAA:)")),
        (f"sha-256={of('sha-256').split(':')[1]!r}", "Content-Digest is not valid"),
        (of("sha-256").upper(), "Content-Digest is not valid"),
        *((value, "Content-Digest is not valid") for value in ("sha-256=:é:", "sha-256=:AAAA", "(" * 500)),
        *((value, "must contain a sha-256 or a sha-512") for value in ("", "md5=:XrY7u+Ae7tCTyyK7j1rNww==:")),
    ],
)
def test_all_known_digests_must_match(value: str, said: str) -> None:
    """All known digests must match the body."""
    with pytest.raises(BadSignature, match=said):
        check_digest(value, BODY)
