"""An authorization server that exchanges tokens, and an API that accepts only the exchanged tokens."""

import base64
import itertools
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

from joserfc import jwt
from joserfc.jwk import KeySet

from tests.auth.issuer import Issuer
from tests.downstream.exchange.served import Reply

CLIENT = "mcp swarm"
SECRET = "a+b/c=&d:e%f"
"""A secret with characters that a form encodes."""
_SAID_ONCE = ("grant_type", "subject_token", "subject_token_type", "requested_token_type", "scope", "assertion")

ISSUER = Issuer()
"""The issuer of the callers' tokens."""


def own(user: str, **claims: Any) -> str:
    """Return a token that a user sends to the MCP server."""
    return ISSUER.token(sub=user, **claims)


@dataclass
class AuthorizationServer:
    """The token endpoint. It refuses each request that is not exactly as the two specifications and the test say.

    Attributes:
        host: its host, with the port.
        forms: the fields of each accepted request, without the caller's token.
        refused: the reason of each refusal.
        says: fields that replace those of the response, such as `expires_in`; None leaves a field out.
        instead: answers the requests instead, if it is set.
        owners: the user of each exchanged token.
        revoked: exchanged tokens that the API does not accept any more.
        post: whether the client must send its secret in the body.
    """

    host: str = ""
    forms: list[list[tuple[str, str]]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    says: dict[str, Any] = field(default_factory=dict)
    instead: Callable[[], Reply] | None = None
    owners: dict[str, str] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    post: bool = False
    asked: int = 0
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """The URL of the token endpoint."""
        return f"http://{self.host}/token?tenant=1"

    def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Exchange a token."""
        with self._lock:
            self.asked += 1
        if self.instead is not None:
            return self.instead()
        try:
            user = self._checked(path, headers, body)
        except ValueError as error:
            code, reason = error.args
            self.refused.append(reason)
            return Reply(400, json.dumps({"error": code, "error_description": "private"}).encode())
        with self._lock:
            token = f"api-{user}-{next(self._numbers)}"
            self.owners[token] = user
        said = {
            "access_token": token,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": 300,
            **self.says,
        }
        return Reply(200, json.dumps({name: value for name, value in said.items() if value is not None}).encode())

    def _checked(self, path: str, headers: Mapping[str, str], body: bytes) -> str:
        """Return the user whose token a request contains. Raise ValueError with an error code and a reason."""
        if path != "/token?tenant=1" or headers.get("content-type") != "application/x-www-form-urlencoded":
            raise ValueError("invalid_request", "path or content type")
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=True)
        form = dict(fields)
        if any(sum(name == given for given, _ in fields) > 1 for name in _SAID_ONCE) or not all(form.values()):
            raise ValueError("invalid_request", "a field is there twice, or is empty")
        self._check_client(headers, form)
        token = _subject(form)
        try:
            user = str(jwt.decode(token, KeySet(list(ISSUER.keys.values())), algorithms=["RS256"]).claims["sub"])
        except Exception as error:  # noqa: BLE001  # the kind of the error does not matter
            raise ValueError("invalid_grant", f"the token is not valid: {error!r}") from None
        hidden = ("subject_token", "assertion", "client_id", "client_secret")
        self.forms.append([(name, value) for name, value in fields if name not in hidden])
        return user

    def _check_client(self, headers: Mapping[str, str], form: Mapping[str, str]) -> None:
        in_body = form.get("client_id"), form.get("client_secret")
        scheme, _, pair = headers.get("authorization", "").partition(" ")
        in_head = tuple(map(unquote_plus, base64.b64decode(pair).decode("ascii").split(":")))
        if self.post and (in_body != (CLIENT, SECRET) or pair):
            raise ValueError("invalid_client", f"client_secret_post: {in_body}, {scheme}")
        if not self.post and (in_head != (CLIENT, SECRET) or scheme != "Basic" or in_body != (None, None)):
            raise ValueError("invalid_client", f"client_secret_basic: {in_head}, {scheme}")


def _subject(form: Mapping[str, str]) -> str:
    known = {"grant_type", "scope", "client_id", "client_secret"}
    if form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange":
        known |= {"subject_token", "subject_token_type", "requested_token_type", "audience", "resource"}
        needed = "subject_token", "subject_token_type"
    elif form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer":
        known |= {"assertion", "requested_token_use"}
        needed = "assertion", "scope"
        if form.get("requested_token_use") != "on_behalf_of":
            raise ValueError("invalid_request", "requested_token_use")
    else:
        raise ValueError("unsupported_grant_type", form["grant_type"])
    if not known >= set(form) or not set(needed) <= set(form):
        raise ValueError("invalid_request", f"fields {sorted(form)}")
    return form[needed[0]]


@dataclass
class Api:
    """An API. It answers 401 unless the request has an exchanged token that is not revoked.

    Attributes:
        users: the user of each accepted request.
        seen: everything that the API got: paths, headers and bodies.
        bodies: the bodies of the requests.
    """

    tokens: AuthorizationServer
    host: str = ""
    users: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    instead: Callable[[], Reply] | None = None

    @property
    def url(self) -> str:
        """The URL of a document of the API."""
        return f"http://{self.host}/me"

    def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Answer with the name of the user."""
        given = headers.get("authorization")
        self.authorizations.append(given)
        self.seen.append(f"{path} {dict(headers)} {body!r}")
        self.bodies.append(body)
        if self.instead is not None:
            return self.instead()
        token = (given or "").removeprefix("Bearer ")
        if token not in self.tokens.owners or token in self.tokens.revoked:
            return Reply(401, b'{"error": "private"}')
        self.users.append(self.tokens.owners[token])
        return Reply(200, json.dumps({"user": self.tokens.owners[token]}).encode())
