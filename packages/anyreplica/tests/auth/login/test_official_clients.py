"""The official clients log in, while each of their requests goes to the next replica."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from urllib.parse import urlencode

import httpx2
import pytest
from fastmcp import Client as FastMCPClient
from fastmcp.client.auth.oauth import TokenStorageAdapter
from fastmcp.client.transports import StreamableHttpTransport
from key_value.aio.stores.memory import MemoryStore
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl

from conftest import PACKAGE
from tests.auth.login.assertions import CimdClient
from tests.auth.login.browser import Browser
from tests.auth.login.fleets import LoginFleet, logins
from tests.auth.login.flow import REDIRECT, SCOPES
from tests.mcp.any_replica.callbacks import said

pytestmark = [pytest.mark.needs("node"), pytest.mark.needs("redis")]

SECONDS = 3
"""Lifetime of an access token, in seconds. It is so short that the clients must refresh the token in a test."""
CONFORMANCE = PACKAGE / "tests" / "conformance"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginFleet]:
    """Three replicas with an identity provider whose access tokens expire soon."""
    with logins(tmp_path_factory.mktemp("clients"), access_seconds=SECONDS) as fleet:
        yield fleet


class Login:
    """The OAuth flow of the SDK's client, with a browser that logs the user in.

    Attributes:
        served: the names of the replicas that have answered.
        granted: the number of answers of a token endpoint.
    """

    def __init__(self, url: str, browser: Browser, document: str | None = None) -> None:
        self.storage = TokenStorageAdapter(MemoryStore(), url)
        self.logins = self.granted = 0
        self.served = set[str]()
        self._url = f"{url}/mcp"
        self._browser = browser
        self._answer: dict[str, str] = {}
        metadata = OAuthClientMetadata(
            client_name="python", redirect_uris=[AnyUrl(REDIRECT)], scope=SCOPES, token_endpoint_auth_method="none"
        )
        self.auth = OAuthClientProvider(
            self._url, metadata, self.storage, self._redirect, self._callback, client_metadata_url=document
        )

    async def call(self, times: int = 1, pause: float = 0) -> None:
        """Let the SDK's client call `whoami` several times, with a pause after each call."""
        async with (
            httpx2.AsyncClient(auth=self.auth, timeout=60, event_hooks={"response": [self._note]}) as http,
            Client(streamable_http_client(self._url, http_client=http)) as client,
        ):
            for _ in range(times):
                assert said(await client.call_tool("whoami", {})) == "ada"
                await asyncio.sleep(pause)

    async def _note(self, response: httpx2.Response) -> None:
        self.served.add(response.headers.get("x-served-by", ""))
        self.granted += response.request.url.path.endswith("/token")

    async def _redirect(self, url: str) -> None:
        self.logins += 1
        self._answer = await asyncio.to_thread(self._browser.log_in, url, REDIRECT)

    async def _callback(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**{name: self._answer[name] for name in ("code", "state", "iss")})


def test_the_sdks_client_logs_in(fleet: LoginFleet, browser: Browser) -> None:
    """The SDK's client finds the login, registers, logs in, calls, refreshes and calls again."""
    login = Login(fleet.url, browser)
    asyncio.run(login.call(3, SECONDS + 1))
    assert login.logins == 1
    assert login.granted >= 3, "the client has refreshed its token"
    assert login.served == {"replica-1", "replica-2", "replica-3"}


@pytest.mark.anyio
async def test_the_sdks_client_logs_in_with_its_document(fleet: LoginFleet, browser: Browser) -> None:
    """The SDK's client uses the URL of its metadata as its id, and does not register."""
    document = CimdClient(fleet).id
    login = Login(fleet.url, browser, document)
    await login.call()
    client = await login.storage.get_client_info()
    assert client is not None
    assert client.client_id == document


@pytest.mark.anyio
async def test_fastmcps_client_logs_in(fleet: LoginFleet, browser: Browser) -> None:
    """FastMCP's client works with the same flow."""
    login = Login(fleet.url, browser)
    async with FastMCPClient(StreamableHttpTransport(f"{fleet.url}/mcp", auth=login.auth)) as client:
        assert "whoami" in {tool.name for tool in await client.list_tools()}
        assert (await client.call_tool("whoami", {})).data == "ada"


@pytest.mark.parametrize("registers", [True, False], ids=["DCR", "CIMD"])
def test_the_typescript_client_logs_in(fleet: LoginFleet, browser: Browser, registers: bool) -> None:
    """The TypeScript client logs in, with a registration or with its document, and refreshes its token."""
    document = CimdClient(fleet).id
    node = CONFORMANCE / "node_modules" / "node" / "bin" / "node"
    command = [str(node), "--import", str(CONFORMANCE / "fresh.mjs"), str(CONFORMANCE / "clients" / "login.mjs")]
    arguments = [f"{fleet.url}/mcp", REDIRECT, *([] if registers else [document])]
    process = subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = json.loads(process.stdout.readline())
        answer = browser.log_in(asked["authorize"], REDIRECT)
        process.stdin.write(urlencode(answer) + "\n")
        process.stdin.flush()
        done = json.loads(process.stdout.readline())
    assert done["texts"] == ["ada", "ada"]
    assert done["renewed"]
    assert (done["client"] == document) != registers
