"""Tests of what `mcp/compat/oauth_proxy.py` expects of FastMCP's auth providers.

`test_private_names.py` lists the private names, and checks that the installed versions have them.
"""

import inspect
from pathlib import Path

import pytest
from fastmcp.server.auth import OAuthProxy, StaticTokenVerifier, cimd, ssrf
from key_value.aio.adapters.pydantic import PydanticAdapter
from key_value.aio.stores.filetree import FileTreeStore
from key_value.aio.stores.memory import MemoryStore
from key_value.aio.wrappers.encryption import FernetEncryptionWrapper

from anyreplica.mcp.compat import oauth_proxy

_ORIGINAL = ssrf.resolve_hostname


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OAuthProxy:
    """A provider that is made as a server's author makes one."""
    monkeypatch.setattr("fastmcp.settings.home", tmp_path)
    return OAuthProxy(
        upstream_authorization_endpoint="http://127.0.0.1:9/authorize",
        upstream_token_endpoint="http://127.0.0.1:9/token",
        upstream_client_id="client",
        upstream_client_secret="the-secret-of-the-client",
        token_verifier=StaticTokenVerifier(tokens={}),
        base_url="https://mcp.example.com",
    )


def test_the_number_of_stores_is_known(proxy: OAuthProxy) -> None:
    """A provider has seven stores, and replicas may share all of them."""
    adapters = [value for value in vars(proxy).values() if isinstance(value, PydanticAdapter)]
    assert len(adapters) == 7, "FastMCP has more or fewer stores: check that replicas may share all of them"


def test_fetches_pass_the_limits() -> None:
    """FastMCP fetches through these methods, and resolves names with the function that the package replaces."""
    assert "await self._fetcher.fetch(client_id_url)" in inspect.getsource(cimd.CIMDClientManager.get_client)
    parameters = inspect.signature(cimd.CIMDAssertionValidator.validate_assertion).parameters
    assert list(parameters) == ["self", "assertion", "client_id", "token_endpoint", "cimd_doc"]
    assert cimd.CIMDFetcher()._cache == {}
    assert cimd.CIMDAssertionValidator()._jti_cache == {}  # type: ignore[no-untyped-call]
    assert {"doc", "expires_at", "must_revalidate"} <= cimd._CIMDCacheEntry.__dataclass_fields__.keys()
    assert "await resolve_hostname(hostname, port)" in inspect.getsource(ssrf.validate_url)
    assert "getaddrinfo(" not in inspect.getsource(ssrf).replace(inspect.getsource(_ORIGINAL), "")


def test_the_folder_of_the_files_is_found(proxy: OAuthProxy, tmp_path: Path) -> None:
    """The package removes expired files only from the folder that FastMCP has chosen."""
    folder = oauth_proxy.folder_of(proxy)
    assert folder is not None
    assert folder.parent == tmp_path / "oauth-proxy"
    for other in (MemoryStore(), FileTreeStore(data_directory=tmp_path)):
        oauth_proxy.use_storage(proxy, other)
        assert oauth_proxy.folder_of(proxy) is None


def test_no_store_of_the_provider_stays_local(proxy: OAuthProxy) -> None:
    """After `use_storage`, a provider uses no other storage."""
    assert oauth_proxy.has_local_storage(proxy)
    shared = MemoryStore()
    oauth_proxy.use_storage(proxy, shared)
    text = repr([value for value in vars(proxy).values() if isinstance(value, FileTreeStore | FernetEncryptionWrapper)])
    assert text == "[]"
    assert all(each._key_value is shared for each in vars(proxy).values() if isinstance(each, PydanticAdapter))


def test_fastmcp_asks_for_the_lock() -> None:
    """FastMCP takes the lock with `async with`, and passes the id of the token."""
    source = inspect.getsource(OAuthProxy.load_access_token)
    assert "self._get_refresh_lock(token_id)" in source
    assert "async with lock:" in source


def test_the_methods_around_which_the_protection_stands_are_there() -> None:
    """The SDK's handlers call these public methods of a provider."""
    for name, parameters in {
        "exchange_authorization_code": ["self", "client", "authorization_code"],
        "exchange_refresh_token": ["self", "client", "refresh_token", "scopes"],
        "exchange_identity_assertion": ["self", "client", "params"],
    }.items():
        assert list(inspect.signature(getattr(OAuthProxy, name)).parameters) == parameters, name
