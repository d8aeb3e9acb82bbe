"""The browser of a user who logs in: it follows redirects and fills forms."""

import re
from collections.abc import Callable
from html import unescape
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx

_ACTION = re.compile(r"<form[^>]*\baction=\"([^\"]*)\"")
_INPUT = re.compile(r"<input[^>]*>")
_REDIRECTS = range(300, 400)


def from_address(address: str) -> httpx.Client:
    """Return an HTTP client that has this address."""
    return httpx.Client(transport=httpx.HTTPTransport(verify=False, local_address=address), timeout=60)


class Browser:
    """A browser with its cookies. `user` is the name that the user types at the identity provider."""

    def __init__(self, user: str = "ada", address: str = "127.0.0.1") -> None:
        self.user = user
        self.http = from_address(address)
        self.visited: list[httpx.Response] = []
        """The replies, in their order."""

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def log_in(
        self, url: str, redirect_uri: str, between: Callable[[httpx.Response], object] = lambda _: None
    ) -> dict[str, str]:
        """Open an authorization URL, log in and consent. Return the parameters of the redirect to the client.

        `between` is called with each reply before the next request.
        """
        reply = self._get(url)
        for _ in range(20):
            between(reply)
            if reply.status_code in _REDIRECTS:
                target = urljoin(str(reply.url), reply.headers["location"])
                if target.startswith(redirect_uri):
                    return {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
                reply = self._get(target)
            else:
                assert reply.status_code == 200, reply.text
                reply = self._submit(reply)
        raise AssertionError(f"no redirect to the client; the last page is {reply.url}: {reply.text}")

    def _get(self, url: str) -> httpx.Response:
        return self._noted(self.http.get(url))

    def _submit(self, page: httpx.Response) -> httpx.Response:
        fields = {name: value for name, value in map(_field, _INPUT.findall(page.text)) if name}
        fields |= {"action": "approve"} if "csrf_token" in fields else {}
        fields |= {name: self.user for name in ("login", "password") if name in fields}
        found = _ACTION.search(page.text)
        action = urljoin(str(page.url), unescape(found[1])) if found and found[1] else str(page.url)
        return self._noted(self.http.post(action, data=fields))

    def _noted(self, reply: httpx.Response) -> httpx.Response:
        self.visited.append(reply)
        return reply


def _field(tag: str) -> tuple[str, str]:
    """Return the name and the value of an input."""
    values = dict(re.findall(r"\b(name|value)=\"([^\"]*)\"", tag))
    return values.get("name", ""), unescape(values.get("value", ""))
