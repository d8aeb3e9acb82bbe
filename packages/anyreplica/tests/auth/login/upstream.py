"""A small authorization server at which every user is logged in already: for tests that need no real one."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.auth.issuer import Issuer
from tests.downstream.exchange.served import Reply, served


@dataclass
class _Upstream:
    issuer: Issuer

    def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:  # noqa: ARG002
        """Redirect a browser back with a code, and exchange any code for tokens."""
        if path.startswith("/authorize"):
            query = parse_qs(urlsplit(path).query)
            answer = urlencode({"code": "a-code", "state": query["state"][0]})
            return Reply(302, b"", {"Location": f"{query['redirect_uri'][0]}?{answer}"})
        tokens = {"access_token": self.issuer.token(), "token_type": "Bearer", "expires_in": 300, "refresh_token": "r"}
        return Reply(body=json.dumps(tokens).encode(), headers={"Content-Type": "application/json"})


@contextmanager
def upstream(issuer: Issuer) -> Iterator[str]:
    """Serve the authorization server, which gives the tokens of an issuer to anybody, and yield its URL."""
    with served(_Upstream(issuer)) as host:
        yield f"http://{host}"
