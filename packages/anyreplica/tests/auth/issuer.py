"""An authorization server for tests: it has keys and signs tokens with them."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jwk
from joserfc.jws import JWSRegistry
from joserfc.util import urlsafe_b64encode

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

    @contextmanager
    def serving(self) -> Iterator["Issuer"]:
        """Serve the keys until the context ends."""
        issuer = self

        class Keys(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                body = json.dumps(issuer.public).encode()
                self.send_response(503 if issuer.away else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Keys)
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        self.url = f"http://127.0.0.1:{server.server_port}/jwks"
        try:
            yield self
        finally:
            server.shutdown()
            serving.join()
            server.server_close()
