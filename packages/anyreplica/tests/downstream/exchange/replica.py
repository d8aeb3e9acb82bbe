"""A replica that exchanges the tokens of its callers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import Server
from tests.auth.issuer import AUDIENCE, NAME
from tests.downstream.exchange.authorization_server import ISSUER, Api, AuthorizationServer
from tests.downstream.exchange.conftest import Exchanging
from tests.downstream.exchange.served import served

KEY = "a-key-that-is-no-token-of-the-issuer"


@contextmanager
def exchanging_replica(folder: Path) -> Iterator[tuple[Server, Exchanging]]:
    """Run a replica that accepts tokens and a key, and an API with token exchange."""
    tokens = AuthorizationServer()
    api = Api(tokens)
    (folder / "jwks").write_text(json.dumps(ISSUER.public))
    with served(tokens) as tokens.host, served(api) as api.host:
        exchanging = Exchanging(folder, tokens, api)
        with Server(
            folder / "log",
            AUTH_ENABLED="true",
            AUTH_TOKEN=KEY,
            AUTH_JWT_ISSUER=NAME,
            AUTH_JWT_AUDIENCE=AUDIENCE,
            AUTH_JWT_JWKS=str(folder / "jwks"),
            AUTH_JWT_ALGORITHMS="RS256",
            PUBLIC_URL="https://mcp.example.com",
            MCP_COMPONENTS="server,tests.packs.in_name,examples.gateway",
            GATEWAY_APIS=f"http://{api.host}",
            DOWNSTREAM_TOKENS_FILE=str(exchanging.file()),
            LOG_LEVEL="DEBUG",
            NO_PROXY="127.0.0.1",
        ) as server:
            yield server, exchanging
