"""The page `/metrics` of a replica. It may contain anything, so reading it takes bounded time and memory.

The parser of prometheus-client takes quadratic time for a label with many escapes, and it parses every line. This
module parses only the lines that the autoscaler needs. A page that breaks a limit or the format gives no figures.
"""

import asyncio
import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2
from pydantic import SecretStr

from anyreplica.autoscale.readings import Reading

MAX_BYTES = 16 * 1024 * 1024
"""Maximum size of a page. A replica with 1,000 tools writes about 2 MB for each of its processes."""
MAX_LINES = 200_000
"""Maximum number of lines of a page. A replica with 1,000 tools writes about 21,000 for each of its processes."""
MAX_LINE_BYTES = 8 * 1024
"""Maximum length of a line. The longest part of a line is the name of a tool."""
MAX_PROCESSES = 64
"""Maximum number of processes of a replica."""
MAX_BUCKETS = 100
"""Maximum number of different upper bounds of a histogram. A replica has 16."""

_MOST_LABELS = 20
_MOST = 1e15
"""A larger number cannot be a true figure. Calculations with smaller numbers do not overflow."""

_SINGLE = {
    b"mcp_requests_in_flight",
    b"mcp_requests_in_flight_max",
    b"mcp_job_queue_depth",
    b"mcp_jobs_running",
    b"mcp_job_queue_age_seconds",
    b"mcp_replica_draining",
    b"process_cpu_seconds_total",
    b"process_start_time_seconds",
}
"""Metrics without labels. With several processes (`WORKERS`), they have the label `process`."""
_LAG = b"mcp_event_loop_lag_seconds_bucket"
_DURATIONS = b"mcp_request_duration_seconds_bucket"
_NEEDED = {*_SINGLE, _LAG, _DURATIONS}

_NAME = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_REST = re.compile(rb"(?:\{(.*)\})?[ \t]+([^\s]{1,64})(?:[ \t]+-?[0-9]{1,20})?[ \t]*")
"""What follows the name: labels, a value, and perhaps a time."""
_LABEL = re.compile(rb'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*(?:,|\Z)')


class Page:
    """The figures of a page that arrives in parts. Only the figures stay in memory."""

    def __init__(self) -> None:
        self._bytes = self._lines = 0
        self._rest = b""
        """The beginning of a line whose end has not arrived yet."""
        self._values: dict[bytes, dict[bytes, float]] = {}
        """The figures by name and process."""
        self._lag: dict[float, float] = {}
        self._durations: dict[float, float] = {}

    def feed(self, part: bytes) -> None:
        """Read the next part of the page.

        Raises:
            ValueError: the page breaks a limit, or a line that is needed is not in Prometheus' text format.
        """
        self._bytes += len(part)
        if self._bytes > MAX_BYTES:
            raise ValueError(f"the metrics have more than {MAX_BYTES} bytes")
        *lines, self._rest = (self._rest + part).split(b"\n")
        self._lines += len(lines)
        if self._lines > MAX_LINES:
            raise ValueError(f"the metrics have more than {MAX_LINES} lines")
        for line in lines:
            self._read(line)
        if len(self._rest) > MAX_LINE_BYTES:
            self._read(self._rest)

    def reading(self, at: float) -> Reading:
        """Return the figures, after the last part of the page.

        Args:
            at: time of a monotonic clock, in seconds.

        Raises:
            ValueError: the last line is wrong, or the page has no figure at all.
        """
        self._read(self._rest)
        self._rest = b""
        if not (self._values or self._lag or self._durations):
            raise ValueError("the page has none of the metrics of a replica")
        in_flight, most = self._total(b"mcp_requests_in_flight"), self._total(b"mcp_requests_in_flight_max")
        # Each process reports the same queue, so its values are not added. The replica drains if all processes drain.
        depth, running = self._most(b"mcp_job_queue_depth"), self._most(b"mcp_jobs_running")
        return Reading(
            at=at,
            started=tuple(sorted(self._of_all(b"process_start_time_seconds"))),
            in_flight=_usable(in_flight / most) if in_flight is not None and most else None,
            cpu=self._total(b"process_cpu_seconds_total"),
            lag=self._lag,
            durations=self._durations,
            jobs=None if depth is None else depth + (running or 0.0),
            age=self._most(b"mcp_job_queue_age_seconds"),
            is_draining=min(self._of_all(b"mcp_replica_draining"), default=0) == 1,
        )

    def _read(self, line: bytes) -> None:
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"a line of the metrics has more than {MAX_LINE_BYTES} bytes")
        found = _NAME.match(line)
        if found is None or (name := found[0]) not in _NEEDED:
            return
        rest = _REST.fullmatch(line, found.end())
        if rest is None:
            raise _wrong(line)
        try:
            value = float(rest[2])
        except ValueError:
            raise _wrong(line) from None
        labels = _labels(rest[1] or b"", line)
        if name == _LAG:
            _add(self._lag, labels, value, line)
        elif name == _DURATIONS:
            if labels.get(b"method") == b"tools/call":
                _add(self._durations, labels, value, line)
        elif labels.keys() <= {b"process"}:
            values = self._values.setdefault(name, {})
            values[labels.get(b"process", b"")] = value
            if len(values) > MAX_PROCESSES:
                raise ValueError(f"the metrics have more than {MAX_PROCESSES} processes")

    def _total(self, name: bytes) -> float | None:
        found = self._of_all(name)
        return _usable(sum(found)) if found else None

    def _most(self, name: bytes) -> float | None:
        return max(self._of_all(name), default=None)

    def _of_all(self, name: bytes) -> list[float]:
        """Return a figure of all processes. An empty list: it is missing, or one of them has no usable value."""
        found = [_usable(each) for each in self._values.get(name, {}).values()]
        return [] if None in found else [each for each in found if each is not None]


def _labels(text: bytes, line: bytes) -> dict[bytes, bytes]:
    """Return the labels of a line. Escapes in values stay, because no value that is needed has one."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(text):
        label = _LABEL.match(text, at)
        if label is None or label[1] in found or len(found) == _MOST_LABELS:
            raise _wrong(line)
        found[label[1]] = label[2]
        at = label.end()
    return found


def _add(buckets: dict[float, float], labels: dict[bytes, bytes], count: float, line: bytes) -> None:
    try:
        bound = float(labels[b"le"])
    except (KeyError, ValueError):
        raise _wrong(line) from None
    if not bound >= 0 or _usable(count) is None:  # NaN is not >= 0
        raise _wrong(line)
    buckets[bound] = buckets.get(bound, 0.0) + count
    if len(buckets) > MAX_BUCKETS:
        raise ValueError(f"a histogram of the metrics has more than {MAX_BUCKETS} buckets")


def _usable(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and 0 <= value <= _MOST else None


def _wrong(line: bytes) -> ValueError:
    return ValueError(f"the metrics have a wrong line: {line[:100].decode(errors='replace')!r}")


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
