"""Tests of a login from the page: it trusts only the login server that the MCP server names.

The replies of the login server are invented. `tests/auth/login/test_console.py` has the whole login at a real one.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from conftest import Server
from tests.console.conftest import OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

OTHER = "https://other.example"


def _answering(document: dict[str, Any]) -> Callable[[Route], None]:
    """Return a handler that answers with a document."""
    return lambda route: route.fulfill(json=document)


def _invent(page: Page, url: str, metadata: dict[str, Any], answer: dict[str, str]) -> list[str]:
    """Answer for a login server at the address of the replica. Return the list of requests for tokens.

    Args:
        page: The console.
        url: The URL of the replica.
        metadata: What the metadata of the login server say besides its endpoints.
        answer: What the login server adds to the address of the page after the login.
    """
    tokens = list[str]()
    challenge = f'Bearer resource_metadata="{url}/.well-known/oauth-protected-resource/mcp"'

    def endpoint(route: Route) -> None:
        if route.request.headers.get("authorization") == "Bearer the-token":
            route.continue_(headers={k: v for k, v in route.request.headers.items() if k != "authorization"})
            return
        body = {"error": "unauthorized", "message": "Log in."}
        route.fulfill(status=401, headers={"WWW-Authenticate": challenge}, json=body)

    def log_in(route: Route) -> None:
        (state,) = parse_qs(urlsplit(route.request.url).query)["state"]
        back = f"{url}/?{urlencode({'state': state, **answer})}".replace("&", "&amp;")
        route.fulfill(content_type="text/html", body=f'<meta http-equiv="refresh" content="0;url={back}">')

    def token(route: Route) -> None:
        tokens.append(route.request.post_data or "")
        route.fulfill(json={"access_token": "the-token", "token_type": "Bearer"})

    context = page.context
    context.route(f"{url}/mcp", endpoint)
    documents: dict[str, dict[str, Any]] = {
        "/.well-known/oauth-protected-resource/mcp": {"resource": f"{url}/mcp", "authorization_servers": [url]},
        "/.well-known/oauth-authorization-server": {
            "authorization_endpoint": f"{url}/log-in",
            "token_endpoint": f"{url}/get-token",
            "registration_endpoint": f"{url}/register-client",
            **metadata,
        },
        "/register-client": {"client_id": "console"},
    }
    for path, document in documents.items():
        context.route(f"{url}{path}", _answering(document))
    context.route(f"{url}/log-in?*", log_in)
    context.route(f"{url}/get-token", token)
    page.reload()
    page.get_by_role("button", name="Log in").click()
    return tokens


def test_an_answer_of_the_named_issuer_is_accepted(tried: Server, open_console: OpenConsole) -> None:
    """The page gets a token if the metadata and the answer of the login name the same issuer."""
    page = open_console(tried.url).page
    tokens = _invent(page, tried.url, {"issuer": tried.url}, {"code": "the-code", "iss": tried.url})
    expect(page.locator('details.entry[data-entry="echo"]')).to_be_visible(timeout=60_000)
    (only,) = tokens
    assert parse_qs(only)["code"] == ["the-code"]


@pytest.mark.parametrize("metadata", [{"issuer": OTHER}, {}], ids=["other", "none"])
def test_metadata_of_another_issuer_are_refused(
    tried: Server, open_console: OpenConsole, metadata: dict[str, Any]
) -> None:
    """The metadata must name the issuer that was asked (RFC 8414, section 3.3). The page then opens no login."""
    page = open_console(tried.url).page
    tokens = _invent(page, tried.url, metadata, {"code": "the-code"})
    expect(page.get_by_role("alert").filter(has_text=f"not of the issuer {tried.url}.")).to_be_visible()
    expect(page.get_by_role("alert").filter(has_text=metadata.get("issuer", "no issuer"))).to_be_visible()
    assert tokens == []


@pytest.mark.parametrize(
    ("answer", "supported", "shown"),
    [
        ({"code": "the-code", "iss": OTHER}, False, f"the answer is of the issuer {OTHER}"),
        ({"code": "the-code", "iss": ""}, False, "the answer is of no issuer"),
        ({"code": "the-code"}, True, "the answer is of no issuer"),
        ({"error": "access_denied", "iss": OTHER}, False, f"the answer is of the issuer {OTHER}"),
    ],
    ids=["other", "empty", "missing", "an error of another"],
)
def test_an_answer_of_another_issuer_is_refused(
    tried: Server, open_console: OpenConsole, answer: dict[str, str], supported: bool, shown: str
) -> None:
    """An answer with another `iss`, or without the promised one, gets no token (RFC 9207, section 2.4)."""
    page = open_console(tried.url).page
    metadata = {"issuer": tried.url, "authorization_response_iss_parameter_supported": supported}
    tokens = _invent(page, tried.url, metadata, answer)
    expect(page.get_by_role("alert").filter(has_text=shown)).to_be_visible(timeout=60_000)
    assert tokens == []
