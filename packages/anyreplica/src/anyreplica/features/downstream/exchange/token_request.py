"""The request for an exchanged token: RFC 8693, or on-behalf-of of Microsoft Entra ID."""

import base64
from urllib.parse import quote_plus, urlencode

from anyreplica.features.downstream.exchange.entry import ExchangeEntry, TokenExchange

_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def token_request(exchange: TokenExchange, token: str) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of the request that exchanges a caller's token."""
    entry, secret = exchange.entry, exchange.secret.get_secret_value()
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    fields = _on_behalf_of(token) if entry.grant == "on-behalf-of" else _token_exchange(entry, token)
    if entry.scope:
        fields.append(("scope", entry.scope))
    if entry.client_auth_method == "client_secret_post":
        fields += [("client_id", entry.client_id), ("client_secret", secret)]
    else:
        # The two parts are form-encoded before they are joined (RFC 6749, section 2.3.1).
        pair = f"{quote_plus(entry.client_id)}:{quote_plus(secret)}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return headers, urlencode(fields).encode()


def _token_exchange(entry: ExchangeEntry, token: str) -> list[tuple[str, str]]:
    return [
        ("grant_type", _TOKEN_EXCHANGE),
        ("subject_token", token),
        ("subject_token_type", entry.subject_token_type),
        ("requested_token_type", entry.requested_token_type),
        *(("audience", each) for each in entry.audience),
        *(("resource", each) for each in entry.resource),
    ]


def _on_behalf_of(token: str) -> list[tuple[str, str]]:
    return [("grant_type", _JWT_BEARER), ("assertion", token), ("requested_token_use", "on_behalf_of")]
