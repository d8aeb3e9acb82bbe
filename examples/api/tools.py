"""One HTTP API for agents to read from; which one is the operator's to say, and nobody else's.

`API_BASE_URL`, such as `https://api.example.com/v1`, is required: nothing that isn't beneath it is asked.
`API_TOKEN`, or the secret `api_token`, is sent to it as a bearer token. Whatever the token can read, every caller of
this tool can read: give it no more rights than they may have.
"""

import asyncio
import logging
import os
import re
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from urllib.parse import quote

import httpx2
from fastmcp.exceptions import ToolError
from fastmcp.tools import tool
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from server.errors import StartupError

logger = logging.getLogger(__name__)

_SECONDS = 10.0
_MOST_BYTES = 1024 * 1024
_IN_NAMES = ":@!$&'()*+,="
"""What a path's names may hold as it is (RFC 3986, section 3.3: pchar), but for `;`, which some servers cut at."""


def _setting(name: str) -> str:
    secret = Path(os.environ.get("SECRETS_DIR") or "/run/secrets", name.lower())
    return os.environ.get(name) or (secret.read_text().strip() if secret.is_file() else "")


def _checked(value: str) -> str:
    try:
        url = httpx2.URL(value)
    except httpx2.InvalidURL:
        url = httpx2.URL()
    odd = url.userinfo or set(value) & set("?# \\") or (url.port or 0) > 65535
    if url.scheme not in ("http", "https") or not url.host or odd:
        raise StartupError(
            "API_BASE_URL: required; a URL like https://api.example.com/v1, without user, query and fragment"
        )
    return str(url).rstrip("/")


_BASE = _checked(_setting("API_BASE_URL"))
_TOKEN = _setting("API_TOKEN")
if not re.fullmatch(r"[\x21-\x7e]*", _TOKEN):
    raise StartupError("API_TOKEN: visible ASCII characters, no spaces: nothing else fits a header")

_CLIENT = httpx2.AsyncClient(
    # Not compressed, so that what comes is as large as it will be.
    headers={"Accept": "application/json", "Accept-Encoding": "identity"}
    | ({"Authorization": f"Bearer {_TOKEN}"} if _TOKEN else {}),
    # One caller's cookies would be sent with the next one's call.
    cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    follow_redirects=False,
    timeout=None,  # `_SECONDS` are for the whole call, which a server that sends byte by byte can't stretch
)


@tool(annotations={"readOnlyHint": True})
async def get_json(path: str, query: dict[str, str | int | float | bool] | None = None) -> JsonValue:
    """Get a JSON document from the API.

    Args:
        path: Where it is, as in "users/42": names as they are, not percent-encoded.
        query: Parameters by name, as in {"page": 2}.

    Raises:
        ToolError: the path is none, or the API gives no such document; the message says why.
    """
    url = _url(path)
    try:
        async with asyncio.timeout(_SECONDS), _CLIENT.stream("GET", url, params=query) as response:
            if not response.is_success:
                raise ToolError(_refusal(response.status_code))
            body = await _read(response)
    except TimeoutError:
        raise ToolError(f"the API did not answer within {_SECONDS:g} s") from None
    except httpx2.InvalidURL:
        raise ToolError("path and query are too long") from None
    except httpx2.HTTPError as error:
        logger.warning("the API can't be reached: %s: %s", type(error).__name__, error)
        raise ToolError("the API can't be reached, or its answer broke off") from None
    try:
        document: JsonValue = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise ToolError("the API answered with something that is no JSON") from None
    if _TOKEN and to_json(_TOKEN)[1:-1] in to_json(document):  # as of a page that shows what it was sent
        raise ToolError("the API's answer holds a secret of this server's, and isn't shown")
    return document


def _url(path: str) -> str:
    """Where a document is; no path leads out of the base.

    What servers between here and there may read in two ways is refused rather than encoded: `%` (decoded twice),
    `\\` (a slash to some), `;` (cut off by some), names of dots and spaces (`..`).

    Raises:
        ToolError: it is no path of names.
    """
    relative = path.removeprefix("/")
    names = relative.removesuffix("/").split("/")
    if not path.isprintable() or set(path) & set("%\\;?#") or not all(name.strip(" .") for name in names):
        raise ToolError(
            "path must be names with '/' in between, as in 'users/42': none of them empty, '.' or '..', "
            "and without % \\ ; ? # and control characters; parameters go into query"
        )
    return f"{_BASE}/{quote(relative, safe='/' + _IN_NAMES)}"


def _refusal(status: int) -> str:
    meaning = f"{status} {httpx2.codes.get_reason_phrase(status)}".rstrip()
    if 300 <= status < 400:
        return f"the API redirects ({meaning}), which isn't followed"
    return f"the API answered {meaning}"


async def _read(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > _MOST_BYTES:
            raise ToolError(f"the API's answer is larger than {_MOST_BYTES} bytes; ask for less of it")
    return bytes(body)
