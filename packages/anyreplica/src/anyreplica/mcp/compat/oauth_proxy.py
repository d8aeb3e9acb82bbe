"""FastMCP's OAuth proxy: its storage, its keys, and the clients that are described by a document (CIMD).

This module uses private names of FastMCP's auth providers, which `tests/test_private_names.py` lists.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import fastmcp
from fastmcp.server.auth import cimd, ssrf
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

Assertion = TypeVar("Assertion")

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
    cast("Any", proxy)._default_file_store = None  # FastMCP removes expired files from there
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


def folder_of(proxy: "OAuthProxy") -> Path | None:
    """Return the folder in which FastMCP has chosen to store the state of a provider. None: it stores it elsewhere."""
    store: Any = storage_of(proxy)
    while isinstance(store, BaseWrapper):
        store = store.key_value
    folder = getattr(store, "_data_directory", None)
    home = fastmcp.settings.home / "oauth-proxy"
    return Path(folder) if folder is not None and Path(folder).is_relative_to(home) else None


class DocumentUnavailable(Exception):
    """A limit stopped the fetch of a document. The current request of the login has the answer for the client."""


class DocumentLimits(Protocol):
    """The limits of the fetches of documents and keys. The methods raise DocumentUnavailable at a limit."""

    def fetching(self) -> AbstractAsyncContextManager[None]:
        """Hold a place for a fetch inside the `async with` block."""

    async def look_up(self, name: str, port: int) -> list[Any]:
        """Resolve a name. Return what `socket.getaddrinfo` returns; raise OSError if it cannot be resolved."""


def limit_clients(
    proxy: "OAuthProxy",
    documents: DocumentLimits,
    identify: Callable[[str], Assertion],
    claim: Callable[[str, Assertion], None] | None,
) -> None:
    """Limit the work that clients with a client document (CIMD) can cause.

    Args:
        documents: the limits of the fetches of documents and keys.
        identify: returns the id of an assertion (`private_key_jwt`), whose signature is not verified yet. It raises
            ValueError if the assertion has a wrong form.
        claim: marks a verified assertion of a client as used. It raises ValueError if the assertion was used before.
            None: Redis has the used assertions.
    """
    manager = proxy._cimd_manager
    if manager is None:
        return
    fetcher, validator = cast("Any", manager._fetcher), cast("Any", manager._assertion_validator)
    fetch = partial(type(fetcher).fetch, fetcher)
    validate_assertion = partial(type(validator).validate_assertion, validator)

    async def fetch_within_limits(url: str) -> cimd.CIMDDocument:
        known = fetcher._cache.get(url)
        if known is not None and not known.must_revalidate and time.time() < known.expires_at:
            return cast("cimd.CIMDDocument", known.doc)
        try:
            async with documents.fetching():
                return cast("cimd.CIMDDocument", await fetch(url))
        except DocumentUnavailable as error:
            raise cimd.CIMDFetchError(str(error)) from None

    async def validate_within_limits(
        assertion: str, client_id: str, token_endpoint: str, cimd_doc: cimd.CIMDDocument
    ) -> bool:
        found = identify(assertion)
        try:
            async with documents.fetching() if cimd_doc.jwks_uri else nullcontext():
                valid = cast("bool", await validate_assertion(assertion, client_id, token_endpoint, cimd_doc))
        except DocumentUnavailable as error:
            raise ValueError(str(error)) from None
        finally:
            validator._jti_cache.clear()  # FastMCP has one limit for all clients
        if claim is not None:
            claim(client_id, found)
        return valid

    async def resolve_within_limits(hostname: str, port: int = 443) -> list[str]:
        try:
            found = await documents.look_up(hostname, port)
        except (DocumentUnavailable, OSError, UnicodeError) as error:
            raise ssrf.SSRFError(f"The name {hostname} cannot be resolved: {error}") from None
        return list(dict.fromkeys(address[0] for *_, address in found))

    fetcher.fetch = fetch_within_limits
    validator.validate_assertion = validate_within_limits
    # FastMCP resolves names in asyncio's own threads, which a few slow names would occupy.
    ssrf.resolve_hostname = resolve_within_limits


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
