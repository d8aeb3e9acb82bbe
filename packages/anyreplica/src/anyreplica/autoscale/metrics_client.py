"""Reads `/metrics` of a replica over HTTP. A replica may answer with anything, at any speed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2
from pydantic import SecretStr

from anyreplica.autoscale.page import MAX_BYTES, Page

ANSWER_SECONDS = 4.0
"""Time limit for the metrics of a replica, in seconds."""


class MetricsClient:
    """A client of the metrics of replicas."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def read(self, address: str, port: int, path: str) -> Page:
        """Return the metrics of a replica.

        Raises:
            OSError: the replica does not answer in time, or not with a page of metrics.
        """
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS),
                self._client.stream("GET", f"http://{where}{path}") as reply,
            ):
                problem = _problem(reply)
                if problem:
                    raise OSError(f"{where} {problem}")
                page = Page()
                async for part in reply.aiter_raw():
                    page.feed(part)
                return page
        except (httpx2.TimeoutException, TimeoutError):
            raise OSError(f"{where} does not answer within {ANSWER_SECONDS:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise OSError(f"{where} gives no metrics: {error}") from None


@asynccontextmanager
async def metrics_client(token: SecretStr | None) -> AsyncIterator[MetricsClient]:
    """Open the client, and close it at the end."""
    headers = {"Accept": "text/plain", "Accept-Encoding": "identity"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token.get_secret_value()}"
    async with httpx2.AsyncClient(
        timeout=ANSWER_SECONDS,
        headers=headers,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),  # replicas come and go
        trust_env=False,  # a proxy in HTTP_PROXY gets neither the token nor the requests
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # a replica must not fill the memory with cookies
    ) as client:
        yield MetricsClient(client)


def _problem(reply: httpx2.Response) -> str:
    """Return why the body of an answer must not be read; empty: it may be read.

    A replica states the length of its metrics, and sends them uncompressed. So a body without an end, and a small body
    that becomes a large one, need no other limit.
    """
    if reply.status_code == HTTPStatus.UNAUTHORIZED:
        return "refuses the METRICS_TOKEN (status 401)"
    if reply.status_code != HTTPStatus.OK:
        return f"answers GET {reply.url.path} with status {reply.status_code}"
    if "content-encoding" in reply.headers:
        return "sends compressed metrics"
    length = reply.headers.get("content-length", "")
    if "transfer-encoding" in reply.headers or not (length.isascii() and length.isdecimal()):
        return "sends metrics without a Content-Length"
    if len(length) > len(str(MAX_BYTES)) or int(length) > MAX_BYTES:
        return f"sends metrics of more than {MAX_BYTES} bytes"
    return ""
