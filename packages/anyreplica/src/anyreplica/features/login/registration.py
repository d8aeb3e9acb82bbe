"""The registrations of clients: anybody can register one, so each is small, and only a used one lasts."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from fastmcp.server.auth import OAuthProvider
from mcp.server.auth.provider import RegistrationError
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from anyreplica.features.login.replay import method_of

MOST_METADATA_BYTES = 4096
"""Maximum size of the metadata of a registered client, in bytes."""
UNUSED_SECONDS = 3600
"""Time for which a registered client is stored before its first login."""
USED_SECONDS = 90 * 24 * 3600
"""Time for which a registered client is stored after its last login or refresh."""

Used = Callable[[OAuthClientInformationFull], Awaitable[None]]


def refuse_large_registrations(provider: OAuthProvider) -> None:
    """Refuse the registration of a client whose metadata has more than `MOST_METADATA_BYTES`."""
    original = method_of(provider, "register_client")

    async def register(client_info: OAuthClientInformationFull) -> None:
        size = len(client_info.model_dump_json(exclude_none=True).encode())
        if size > MOST_METADATA_BYTES:
            text = f"The metadata of the client has {size} bytes; the limit is {MOST_METADATA_BYTES}. Shorten its URLs."
            raise RegistrationError("invalid_client_metadata", text)
        await original(client_info)

    setattr(provider, "register_client", register)  # noqa: B010  # mypy refuses an assignment to a method


def note_logins(provider: OAuthProvider, used: Used) -> None:
    """Call `used` with the client after each login and each refresh. Call this after the other changes of a method."""
    for name in ("exchange_authorization_code", "exchange_refresh_token"):
        _note_use(provider, name, used)


def _note_use(provider: OAuthProvider, name: str, used: Used) -> None:
    method = getattr(provider, name)
    original = getattr(method, "__wrapped__", method)  # without `used` of an earlier app in this process

    @wraps(original)
    async def exchange(client: OAuthClientInformationFull, *arguments: Any) -> OAuthToken:
        tokens: OAuthToken = await original(client, *arguments)
        await used(client)
        return tokens

    setattr(provider, name, exchange)
