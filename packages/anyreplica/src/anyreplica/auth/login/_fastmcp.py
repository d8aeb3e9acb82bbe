"""The only module of logins that uses private names of FastMCP's auth providers.

`tests/auth/login/test_names.py` lists these names. When an upgrade moves one of them, the test fails and says which
one.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, cast

from fastmcp.server.auth.auth import PrivateKeyJWTClientAuthenticator
from fastmcp.server.auth.jwt_issuer import JWTIssuer, derive_jwt_key
from joserfc.errors import JoseError
from key_value.aio.adapters.pydantic import PydanticAdapter
from key_value.aio.wrappers.base import BaseWrapper
from mcp.server.auth.middleware.client_auth import ClientAuthenticator

if TYPE_CHECKING:
    from fastmcp.server.auth import OAuthProxy
    from fastmcp.server.auth.cimd import CIMDClientManager
    from key_value.aio.protocols import AsyncKeyValue

_LOCAL_STORES = frozenset(
    "disk duckdb filetree keyring memory null rocksdb simple windows_registry".split()  # noqa: SIM905
)
"""The modules of key-value-aio's stores that only one process or one machine can read."""


def storage_of(proxy: "OAuthProxy") -> "AsyncKeyValue":
    """Return the storage of a provider."""
    return proxy._client_storage


def has_local_storage(proxy: "OAuthProxy") -> bool:
    """Return whether a provider stores its state where the other replicas cannot read it."""
    store: Any = storage_of(proxy)
    while isinstance(store, BaseWrapper):
        store = store.key_value
    package, _, module = type(store).__module__.partition("key_value.aio.stores.")
    return not package and module.partition(".")[0] in _LOCAL_STORES


def use_storage(proxy: "OAuthProxy", storage: "AsyncKeyValue") -> None:
    """Let a provider store its clients, transactions, codes and tokens in another storage."""
    proxy._client_storage = storage
    for adapter in vars(proxy).values():
        if isinstance(adapter, PydanticAdapter):
            adapter._key_value = storage


def clients_of(proxy: "OAuthProxy") -> str:
    """Return the name of the collection of registered clients."""
    return cast("str", proxy._client_store._default_collection)


def use_lock(proxy: "OAuthProxy", lock: Callable[[str], AbstractAsyncContextManager[None]]) -> None:
    """Let a provider hold `lock` while it refreshes a token of the identity provider. Its argument is the token's id.

    FastMCP's own lock holds within one process.
    """
    cast("Any", proxy)._get_refresh_lock = lock


async def grant_of(proxy: "OAuthProxy", jti: str) -> str | None:
    """Return the id under which a provider stores the identity provider's tokens for one of its own tokens."""
    mapping = await proxy._jti_mapping_store.get(key=jti)
    return None if mapping is None else mapping.upstream_token_id


async def forget_grant(proxy: "OAuthProxy", grant: str) -> None:
    """Remove the identity provider's tokens. All tokens of the provider that stand for them become invalid."""
    await proxy._upstream_token_store.delete(key=grant)


def assertions_of(proxy: "OAuthProxy") -> "CIMDClientManager | None":
    """Return the object that checks the assertions of clients (`private_key_jwt`)."""
    return proxy._cimd_manager


def authenticator_of(proxy: "OAuthProxy") -> ClientAuthenticator:
    """Return the check of clients that FastMCP uses at `/token`."""
    if proxy._cimd_manager is None:
        return ClientAuthenticator(proxy)
    return PrivateKeyJWTClientAuthenticator(proxy, proxy._cimd_manager, proxy.token_endpoint_url)


class RingIssuer(JWTIssuer):
    """An issuer of tokens with several keys: the first key signs, and every key verifies."""

    def __init__(self, issuer: str, audience: str, keys: Sequence[bytes]) -> None:
        super().__init__(issuer, audience, keys[0])
        self._older = [JWTIssuer(issuer, audience, key) for key in keys[1:]]

    def verify_token(self, token: str, expected_token_use: str = "access") -> dict[str, Any]:  # noqa: S107
        """Return the claims of a token. Raise JoseError if it is not valid with any key."""
        try:
            return super().verify_token(token, expected_token_use)
        except JoseError:
            for older in self._older:
                try:
                    return older.verify_token(token, expected_token_use)
                except JoseError:
                    continue
            raise


def sign_with(proxy: "OAuthProxy", keys: Sequence[bytes]) -> bool:
    """Let a provider sign its tokens with a ring of keys. Call this after `get_routes`, which sets the audience.

    Return False and change nothing if the server's author has chosen a key.
    """
    secret = proxy._upstream_client_secret
    if secret is None:
        return False
    default = derive_jwt_key(high_entropy_material=secret.get_secret_value(), salt="fastmcp-jwt-signing-key")
    if proxy._jwt_signing_key != default:
        return False
    made = proxy.jwt_issuer
    proxy._jwt_issuer = RingIssuer(made.issuer, made.audience, keys)
    return True
