"""Assertions: of a CIMD client that proves its identity, and of an issuer that vouches for a user (ID-JAG)."""

import json
import secrets
import time
from typing import Any

from joserfc import jwk, jwt

from tests.auth.issuer import Issuer
from tests.auth.login.fleets import LoginFleet
from tests.auth.login.flow import REDIRECT, SCOPES, OAuthClient
from tests.auth.login.server import DOCUMENTS

_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class CimdClient(OAuthClient):
    """A client whose id is the URL of a document with its metadata. With a key, it signs its token requests."""

    def __init__(self, fleet: LoginFleet, *, key: bool = False) -> None:
        name = f"{secrets.token_hex(8)}.json"
        super().__init__(fleet.url, f"{DOCUMENTS}/{name}")
        self._key = jwk.generate_key("RSA", 2048, {"kid": "client", "alg": "RS256"}) if key else None
        said: dict[str, Any] = {"client_id": self.id, "client_name": "a test", "redirect_uris": [REDIRECT]}
        said |= {"scope": SCOPES, "grant_types": ["authorization_code", "refresh_token"]}
        said |= {"token_endpoint_auth_method": "private_key_jwt" if key else "none"}
        if self._key is not None:
            said["jwks"] = {"keys": [self._key.as_dict(private=False)]}
        (fleet.documents / name).write_text(json.dumps(said))

    def assertion(self) -> dict[str, str]:
        """Return the fields of a token request with a new assertion of the client."""
        assert self._key is not None
        now = int(time.time())
        claims: dict[str, Any] = {"iss": self.id, "sub": self.id, "aud": f"{self.public}/token"}
        claims |= {"iat": now, "exp": now + 60, "jti": secrets.token_hex(16)}
        signed = jwt.encode({"alg": "RS256", "kid": "client"}, claims, self._key)
        return {"client_assertion_type": _CLIENT_ASSERTION, "client_assertion": signed}


def identity_assertion(issuer: Issuer, client: OAuthClient, **changes: Any) -> dict[str, str]:
    """Return the fields of a token request with an identity assertion for a client."""
    claims = {"aud": f"{client.public}/", "client_id": client.id, "resource": f"{client.public}/mcp"}
    claims |= {"scope": SCOPES, "jti": secrets.token_hex(16), **changes}
    assertion = issuer.token({"typ": "oauth-id-jag+jwt"}, **claims)
    return {"grant_type": JWT_BEARER, "assertion": assertion, "client_id": client.id}
