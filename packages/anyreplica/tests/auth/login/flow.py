"""The steps of an OAuth client, each sent to a server or replica that the test chooses."""

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.auth.login.browser import Browser, from_address

REDIRECT = "http://127.0.0.1:1/callback"
"""The redirect URI of the clients. Nothing listens there; the browser stops at this address."""
SCOPES = "mcp reports:read"


@dataclass
class OAuthClient:
    """A client of the login. `public` is the URL of the server behind the proxy, `address` that of the client."""

    public: str
    id: str = ""
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    address: str = "127.0.0.1"

    def register(self, url: str, **more: Any) -> httpx.Response:
        """Register the client (RFC 7591)."""
        said = {"redirect_uris": [REDIRECT], "client_name": "a test", "scope": SCOPES, **more}
        reply = self._post(f"{url}/register", json=said)
        if reply.status_code == 201:
            self.id = reply.json()["client_id"]
        return reply

    def authorization(self, url: str, scope: str = SCOPES, **more: str) -> str:
        """Return the URL at which the user logs in."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")
        said = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": REDIRECT,
            "scope": scope,
            "state": "the-state-of-the-client",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "resource": f"{self.public}/mcp",
            **more,
        }
        return f"{url}/authorize?{urlencode(said)}"

    def code(self, url: str, browser: Browser, scope: str = SCOPES) -> str:
        """Let a user log in, and return the authorization code."""
        answer = browser.log_in(self.authorization(url, scope), REDIRECT)
        assert answer["state"] == "the-state-of-the-client", answer
        return answer["code"]

    def exchange(self, url: str, code: str, **more: str) -> httpx.Response:
        """Exchange an authorization code for tokens."""
        said = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT, "client_id": self.id}
        return self._post(f"{url}/token", data={**said, "code_verifier": self.verifier, **more})

    def refresh(self, url: str, token: str, **more: str) -> httpx.Response:
        """Exchange a refresh token for new tokens."""
        said = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.id}
        return self._post(f"{url}/token", data={**said, **more})

    def revoke(self, url: str, token: str) -> httpx.Response:
        """Revoke a token."""
        return self._post(f"{url}/revoke", data={"token": token, "client_id": self.id})

    def log_in(self, url: str, user: str = "ada", scope: str = SCOPES) -> dict[str, Any]:
        """Register, log in and return the tokens."""
        assert self.register(url).status_code == 201
        browser = Browser(user, self.address)
        try:
            reply = self.exchange(url, self.code(url, browser, scope))
        finally:
            browser.close()
        assert reply.status_code == 200, reply.text
        tokens: dict[str, Any] = reply.json()
        return tokens

    def _post(self, url: str, **said: Any) -> httpx.Response:
        return post(url, self.address, **said)


def post(url: str, address: str = "127.0.0.1", **said: Any) -> httpx.Response:
    """Send a POST request on a connection of its own."""
    with from_address(address) as http:
        return http.post(url, **said)
