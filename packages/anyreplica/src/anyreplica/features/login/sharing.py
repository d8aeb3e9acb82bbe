"""What the auth providers of several replicas share: storage, keys, locks and used codes."""

import logging
from typing import TYPE_CHECKING

from fastmcp.server.auth import OAuthProvider
from mcp.shared.auth import OAuthClientInformationFull

from anyreplica.features.login.limits import StoredBytes
from anyreplica.features.login.revocation import (
    protect_client_assertions,
    protect_codes,
    protect_identity_assertions,
    protect_refresh_tokens,
)
from anyreplica.features.login.settings import LoginSettings
from anyreplica.features.login.shared import SharedLock, SharedLogins, SingleUse
from anyreplica.features.login.storage import USED_SECONDS, LocalStorage, LoginStorage, Used, note_logins
from anyreplica.mcp.compat import oauth_proxy
from anyreplica.settings.errors import StartupError
from anyreplica.settings.words import derived

if TYPE_CHECKING:
    from fastmcp.server.auth import OAuthProxy

logger = logging.getLogger(__name__)


def share_proxy(proxy: "OAuthProxy", shared: SharedLogins, once: SingleUse, settings: LoginSettings) -> None:
    """Let all replicas share the state of a provider that forwards logins to an identity provider.

    Raises:
        StartupError: there is no key to encrypt the state.
    """
    ring = settings.request_state_ring
    name = type(proxy).__name__
    if not ring:
        raise StartupError(
            f"REQUEST_STATE_KEYS: required by the login ({name}) with REDIS_URL, "
            "because Redis stores logins in encrypted form; set it (openssl rand -hex 32 makes a key)"
        )
    found = oauth_proxy.storage_of(proxy)
    if isinstance(found, LoginStorage):
        storage: LoginStorage | LocalStorage = found
    elif oauth_proxy.has_local_storage(proxy):
        storage = LoginStorage(shared, ring)
        oauth_proxy.use_storage(proxy, storage)
    else:
        storage = _limited(proxy, StoredBytes(shared))
        logger.info("%s: the login uses the storage that the server's code chose (client_storage)", name)
    if not oauth_proxy.sign_with(proxy, derived(ring, "login token")):
        logger.info("%s: the login signs tokens with the key that the server's code chose (jwt_signing_key)", name)
    oauth_proxy.use_lock(proxy, lambda grant: SharedLock(shared, "grant", grant))
    if (manager := oauth_proxy.assertions_of(proxy)) is not None:
        protect_client_assertions(manager, once)
    _protect(proxy, shared, once)
    note_logins(proxy, _keeping(oauth_proxy.clients_of(proxy), storage))


def share_provider(provider: OAuthProvider, shared: SharedLogins, once: SingleUse) -> None:
    """Make the codes and tokens of a provider with its own storage valid once on all replicas."""
    _protect(provider, shared, once)


def limit_storage(proxy: "OAuthProxy", stored: StoredBytes) -> None:
    """Let unused registrations expire in the storage of a single replica without Redis."""
    note_logins(proxy, _keeping(oauth_proxy.clients_of(proxy), _limited(proxy, stored)))


def _limited(proxy: "OAuthProxy", stored: StoredBytes) -> LocalStorage:
    """Put the limits of `LocalStorage` around the storage of a provider."""
    found = oauth_proxy.storage_of(proxy)
    if isinstance(found, LocalStorage):  # of an earlier app in this process
        found = found.key_value
    storage = LocalStorage(found, stored, oauth_proxy.folder_of(proxy))
    oauth_proxy.use_storage(proxy, storage)
    return storage


def _protect(provider: OAuthProvider, shared: SharedLogins, once: SingleUse) -> None:
    protect_codes(provider, once)
    protect_refresh_tokens(provider, once, shared)
    protect_identity_assertions(provider, once)


def _keeping(collection: str, storage: LoginStorage | LocalStorage) -> Used:
    """Return a function that lets the registration of a client last after a login."""

    async def keep(client: OAuthClientInformationFull) -> None:
        if client.client_id is not None:
            await storage.keep(client.client_id, collection, USED_SECONDS)

    return keep
