"""Fixtures: an authorization server, an API, and a client that exchanges tokens between them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from anyreplica.downstream import Downstream
from anyreplica.features.downstream.exchange.caller_tokens import CallerTokens
from anyreplica.features.downstream.hosts import Hosts
from anyreplica.features.downstream.settings import DownstreamSettings
from tests.downstream.exchange.authorization_server import CLIENT, SECRET, Api, AuthorizationServer, own
from tests.downstream.exchange.served import served


class Exchanging:
    """A client of the API, and the two servers."""

    def __init__(self, folder: Path, tokens: AuthorizationServer, api: Api) -> None:
        self.folder, self.tokens, self.api = folder, tokens, api
        self.user: str | None = None
        """The token of the caller."""
        self.fields: dict[str, str] = {}
        """Fields of the API's table, as TOML, in addition to the required ones."""
        self.settings: dict[str, float] = {}
        self.hosts: Hosts
        self.client: Downstream
        self.caller_tokens: CallerTokens

    def file(self) -> Path:
        """Write the file of the operator and return its path."""
        (self.folder / "secret").write_text(f"{SECRET}\n")
        fields = {
            "token_url": f'"{self.tokens.url}"',
            "client_id": f'"{CLIENT}"',
            "client_secret_file": '"secret"',
            **self.fields,
        }
        lines = [f'["{self.api.host}"]', *(f"{name} = {value}" for name, value in fields.items())]
        path = self.folder / "tokens.toml"
        path.write_text("\n".join(lines))
        return path

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Open a new client, which is there until the block ends."""
        self.hosts = Hosts(DownstreamSettings.model_validate(self.settings))
        endpoints = Downstream(self.hosts)
        self.caller_tokens = CallerTokens(endpoints.post)
        self.caller_tokens.configure(self.file(), lambda: self.user)
        self.client = Downstream(self.hosts, tokens=self.caller_tokens)
        try:
            yield
        finally:
            await self.client.close()
            await endpoints.close()

    async def get(self, **options: Any) -> Any:
        """Call the API once with a new client, and return its document."""
        async with self.opened():
            return (await self.client.get(self.api.url, **options)).json()


@pytest.fixture
def exchanging(tmp_path: Path) -> Iterator[Exchanging]:
    """A client that exchanges tokens, at first those of the user `ada`.

    The authorization server has refused no request at the end of the test.
    """
    tokens = AuthorizationServer()
    api = Api(tokens)
    with served(tokens) as tokens.host, served(api) as api.host:
        made = Exchanging(tmp_path, tokens, api)
        made.user = own("ada")
        yield made
    assert tokens.refused == []
