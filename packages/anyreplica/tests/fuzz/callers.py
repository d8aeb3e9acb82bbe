"""Callers with keys, tokens and signatures, valid and invalid."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from anyreplica.features.keys.key import hash_of
from anyreplica.signing.keypair import public_text
from anyreplica.signing.sign import signed_headers
from tests.auth.issuer import AUDIENCE, NAME, Issuer
from tests.damage.dice import Dice
from tests.damage.messages import mangled
from tests.damage.structured import replaced
from tests.damage.values import DEPTHS, odd, written

Headers = list[tuple[bytes, bytes]]

KEY = b"k" * 40
_NARROW = b"n" * 40
"""Key of a caller that may use only one tool."""
_SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_ISSUER = Issuer()
_TOKEN = _ISSUER.token(exp=int(time.time()) + 86_400).encode()


def settings(folder: Path) -> dict[str, str]:
    """Return the settings of a replica that accepts all these callers, and write the callers' files into a folder."""
    entries = [
        {"id": "plain", "hash": hash_of(KEY.decode())},
        {"id": "narrow", "hash": hash_of(_NARROW.decode()), "tools": ["echo"], "rate": "1000000/s", "concurrent": 1},
        {"id": "robot", "public_key": public_text(_SIGNER.public_key())},
    ]
    (folder / "keys").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    (folder / "jwks").write_text(json.dumps(_ISSUER.public))
    tokens = {"AUTH_JWT_ISSUER": NAME, "AUTH_JWT_AUDIENCE": AUDIENCE, "AUTH_JWT_JWKS": str(folder / "jwks")}
    keys = {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(folder / "keys"), "SIGNING": "accept"}
    addresses = {"PUBLIC_URL": "https://mcp.example.com", "TRUSTED_PROXIES": "127.0.0.0/8", "RATE_LIMIT": "1000000/s"}
    return tokens | keys | addresses


def shown(dice: Dice, method: str, target: str, body: bytes) -> Headers:
    """Return the headers that authenticate the caller of a request; most of them are valid."""
    kind = dice.below(20)
    if kind < 15:
        return [(b"Authorization", b"Bearer " + dice.one_of(_BEARERS)(dice))]
    if kind == 15:
        return [(b"Authorization", dice.one_of(_AUTHORIZATIONS))]
    if kind == 16:
        return []
    signed = signed_headers(method, f"http://localhost{target}", body, "robot", _SIGNER)
    if kind == 17:  # one signed header or the signature is changed
        name = dice.one_of(sorted(signed))
        signed[name] = replaced(dice, signed[name])
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in signed.items()]
    return [*headers, dice.one_of(headers), *shown(dice, method, target, body)] if dice.once_in(8) else headers


def _part(text: bytes) -> bytes:
    return urlsafe_b64encode(text).rstrip(b"=")


def _made_up(dice: Dice) -> bytes:
    """Return a token that nobody issued, or a token with a head that was changed after signing."""
    head = {"alg": dice.one_of(_ALGORITHMS), dice.one_of(["kid", "crit", "typ"]): odd(dice)}
    claims = {dice.one_of(["iss", "aud", "sub", "exp", "nbf", "scope"]): odd(dice)}
    texts = [odd(dice) if dice.once_in(4) else usual for usual in (head, claims)]
    parts = [_part(written(text, ascii_only=False).encode("utf-8", "replace")) for text in texts]
    signed = _TOKEN.split(b".")[1:] if dice.once_in(2) else [parts[1], b"c2lnbmF0dXJl"]
    return b".".join([parts[0], *signed][: dice.one_of([3, 3, 3, 2, 1])])[:60_000]


_ALGORITHMS = ["RS256", "ES256", "none", "HS256", "", 1, None, []]
_DEEP = [_part(opening * min(depth, 12_000)) + b".e30.e30" for depth in DEPTHS for opening in (b"[", b'{"a":')]

_BEARERS: list[Callable[[Dice], bytes]] = [*[lambda _: KEY] * 20, *[lambda _: _NARROW] * 3, lambda _: _TOKEN, _made_up]
_BEARERS += [lambda dice: dice.one_of(_DEEP), lambda dice: mangled(dice, _TOKEN), lambda dice: mangled(dice, KEY)]

_AUTHORIZATIONS = [b"", b"Bearer", b"Bearer ", b"Basic dTpw", b"bearer  " + KEY, b"Bearer " + b"k" * 60_000, KEY]
_AUTHORIZATIONS += [b"Bearer \xff\xfe", b"Bearer " + KEY + b" x", b'Digest realm="', b"Bearer .."]
_AUTHORIZATIONS += [b"Bearer e30.e30.e30"]
