"""An authorization server for tests: it has keys and signs tokens with them."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from joserfc import jwk
from joserfc.jws import JWSRegistry
from joserfc.util import urlsafe_b64encode

from tests.downstream.exchange.served import Reply, served

NAME = "https://login.example.com"
AUDIENCE = "https://mcp.example.com/mcp"


class Issuer:
    """An issuer of tokens, which serves its public keys at `url`.

    Attributes:
        asked: number of requests for its keys.
        away: whether it answers every request with 503.
    """

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.asked = 0
        self.away = False
        self.url = ""
        self.rotate("first")

    def rotate(self, name: str, algorithm: str = "RS256") -> None:
        """Add a key, and sign with it from now on."""
        said: Any = {"kid": name, "alg": algorithm}
        rsa = algorithm[:2] in ("RS", "PS")
        self.keys[name] = jwk.generate_key("RSA", 2048, said) if rsa else jwk.generate_key("EC", "P-256", said)
        self.now, self.algorithm = name, algorithm

    @property
    def public(self) -> dict[str, Any]:
        """The public keys as a JWKS (RFC 7517)."""
        return {"keys": [key.as_dict(private=False) for key in self.keys.values()]}

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return the claims of a valid token, with changes; None leaves a claim out."""
        now = int(time.time())
        said = {"iss": NAME, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 300, "scope": "mcp reports:read"}
        return {name: value for name, value in {**said, **changes}.items() if value is not None}

    def token(self, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a valid token, with the given changes of its claims; None leaves a claim out."""
        return self.signed(json.dumps(self.claims(**claims)).encode(), headers)

    def signed(self, payload: bytes, headers: dict[str, Any] | None = None) -> str:
        """Return a token with any bytes as its claims and a valid signature."""
        head = {"typ": "JWT", "alg": self.algorithm, "kid": self.now, **(headers or {})}
        signing_input = urlsafe_b64encode(json.dumps(head).encode()) + b"." + urlsafe_b64encode(payload)
        algorithm = JWSRegistry(algorithms=[self.algorithm]).get_alg(self.algorithm)
        signature = algorithm.sign(signing_input, self.keys[self.now])
        return (signing_input + b"." + urlsafe_b64encode(signature)).decode()

    def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:  # noqa: ARG002
        """Answer a request for the keys."""
        self.asked += 1
        return Reply(503 if self.away else 200, json.dumps(self.public).encode())

    @contextmanager
    def serving(self) -> Iterator["Issuer"]:
        """Serve the keys until the context ends."""
        with served(self) as host:
            self.url = f"http://{host}/jwks"
            yield self
