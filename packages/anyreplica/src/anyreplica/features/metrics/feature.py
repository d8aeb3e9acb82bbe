"""The feature *metrics*: a page for Prometheus about the replica, its requests and all other features."""

import asyncio
import platform
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import fastmcp
from mcp_types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.registry import Collector
from starlette.types import Scope

from anyreplica._version import __version__
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.metrics.page import metrics_route
from anyreplica.features.metrics.settings import MetricsSettings
from anyreplica.http.access_log import CLIENT_GONE, Write
from anyreplica.http.durations import Durations
from anyreplica.http.limits import InFlight
from anyreplica.http.request_record import FAULT, NO_ERROR, RECORD, RPC_ERROR, Pair, RequestRecord
from anyreplica.http.uvicorn.connections import Connections
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.shared.peers import Peers

_TASK_METHODS = {"tasks/get", "tasks/update", "tasks/cancel"}
_RESPONSE = "response"
"""Label `method` of a client's response to a request of the server."""
_METHODS = SPEC_CLIENT_METHODS | SPEC_CLIENT_NOTIFICATION_METHODS | _TASK_METHODS | {_RESPONSE}
_HTTP = "http"
"""Label `method` of a request that is not an MCP message: `/version`, `/jobs` …"""
_NO_PATH = ("", "")
_REFUSED = {401: "auth", 403: "auth", 408: "slow", 413: "size", 429: "rate"}
_LISTEN = "subscriptions/listen"
"""A method that the duration histogram leaves out: its duration is the time for which the client listened."""


@dataclass(slots=True)
class _Series:
    labels: tuple[str, str, str, str, str]
    durations: Durations
    refused: str
    count: int = 0


class RequestMetrics(Collector):
    """The counters of requests. All unknown tools have the label `unknown`, and all unknown methods the label `other`.

    `tools` returns the existing tools. This class calls the function again for each new name.
    """

    def __init__(self, tools: Callable[[], Mapping[str, object]], draining: Callable[[], bool]) -> None:
        self._tools = tools
        self._draining = draining
        self._known: dict[object, _Series] = {}
        """A cache of the series by values of the scope. It does not store unknown names, which clients can invent."""
        self._series: dict[tuple[str, ...], _Series] = {}
        self._durations: dict[tuple[str, str], Durations] = {}

    def observer(self) -> Write:
        """Return a function that counts a request, which has ended."""
        known = self._known

        def count(_: str, scope: Scope, status: int, seconds: float) -> None:
            record: RequestRecord = scope[RECORD]
            what = (record.called, record.path, status, record.failed)
            series = known.get(what) or self._new(*what)
            series.count += 1
            durations = series.durations  # the body of `observe`, without a function call
            durations.counts[bisect_left(durations.bounds, seconds)] += 1
            durations.total += seconds

        return count

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """Return the counters and the histogram."""
        names = ("method", "tool", "protocol", "path", "outcome")
        text = "Number of requests that were answered, refused or abandoned."
        requests = CounterMetricFamily("mcp_requests", text, None, names)
        refused = dict.fromkeys((*sorted(set(_REFUSED.values())), "draining", "overload"), 0)
        for series in self._series.values():
            requests.add_metric(series.labels, series.count)
            if series.refused:
                refused[series.refused] += series.count
        yield requests
        text = "Number of requests that were refused before any work."
        family = CounterMetricFamily("mcp_refused", text, None, ("reason",))
        for reason, count in refused.items():
            family.add_metric((reason,), count)
        yield family
        text = "Time from the request head to the end of the reply, in seconds."
        seconds = HistogramMetricFamily("mcp_request_duration_seconds", text, labels=("method", "tool"))
        for labels, durations in self._durations.items():
            if labels[0] != _LISTEN:
                durations.add_to(seconds, labels)
        yield seconds

    def _new(self, called: Pair, path: Pair, status: int, failed: str | None) -> _Series:
        method, name = called or (_HTTP, "")
        made_up = bool(called) and method not in _METHODS
        if made_up:
            method = "other"
        tool = name if method == "tools/call" else ""
        if tool and tool not in self._tools():
            tool, made_up = "unknown", True
        reason = self._reason(status)
        outcome = "refused" if reason else _outcome(status, failed)
        labels = (method, tool, *(path or _NO_PATH), outcome)
        series = self._series.get((*labels, reason))
        if series is None:
            durations = self._durations.setdefault(labels[:2], Durations())
            series = self._series[*labels, reason] = _Series(labels, durations, reason)
        if not made_up and status != 503 and (method == "tools/call" or not name):
            self._known[called, path, status, failed] = series
        return series

    def _reason(self, status: int) -> str:
        if status == 503:
            return "draining" if self._draining() else "overload"
        return _REFUSED.get(status, "")


def _outcome(status: int, failed: str | None) -> str:
    if failed == NO_ERROR:
        return "ok"
    if status == CLIENT_GONE:
        return "gone"
    if status >= 500:
        return FAULT
    return failed or (RPC_ERROR if status >= 400 else "ok")


_CONNECTION_BOUNDS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)

_LAG_SECONDS = 0.25
"""Time between two measurements, in seconds."""

_LAG_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(eq=False)
class ReplicaMetrics(Collector):
    """Metrics about a replica and its load."""

    name: str
    lifecycle: Lifecycle
    in_flight: InFlight
    connections: Connections
    peers: Peers

    def __post_init__(self) -> None:
        self._carried = Durations(_CONNECTION_BOUNDS)
        self.connections.closed = self._carried.observe

    def collect(self) -> Iterator[Metric]:
        """Return all metrics."""
        info = ("replica", "version", "python", "fastmcp")
        family = Gauge("mcp_replica_info", "Name of the replica and versions of its software; always 1.", None, info)
        family.add_metric((self.name, __version__, platform.python_version(), fastmcp.__version__), 1)
        yield family
        yield Gauge("mcp_replicas", "Planned number of replicas: MCP_REPLICAS times WORKERS.", self.peers.planned)
        yield Gauge("mcp_replicas_seen", "Number of running replicas that this replica sees.", self.peers.count)
        draining = self.lifecycle.state == "draining"
        yield Gauge("mcp_replica_draining", "1 while the replica drains.", draining)
        yield Gauge("mcp_requests_in_flight", "Number of requests in flight.", self.in_flight.count)
        text = "Maximum number of requests in flight; a further request gets HTTP 503."
        yield Gauge("mcp_requests_in_flight_max", text, self.in_flight.most)
        connections, closed = self.connections, sum(self._carried.counts)
        yield Gauge("mcp_connections", "Number of open connections.", connections.opened - closed)
        yield Gauge("mcp_connections_max", "Maximum number of open connections.", connections.settings.max_connections)
        yield CounterMetricFamily("mcp_connections_opened", "Number of opened connections.", connections.opened)
        text = "Number of requests on a connection, counted when the connection closes."
        carried = HistogramMetricFamily("mcp_connection_requests", text)
        self._carried.add_to(carried)
        yield carried


class LoopLag(Collector):
    """The histogram of the event loop lag. A timer runs again and again, and this class records its delay."""

    def __init__(self) -> None:
        self._late = Durations(_LAG_BOUNDS)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Measure the lag while the context is open."""
        self._wait(asyncio.get_running_loop())
        try:
            yield
        finally:
            self._timer.cancel()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _LAG_SECONDS
        self._timer = loop.call_at(due, self._measure, loop, due)

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._late.observe(max(0.0, loop.time() - due))
        self._wait(loop)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Return the histogram of all measurements."""
        text = "Delay with which the event loop runs a timer, in seconds."
        family = HistogramMetricFamily("mcp_event_loop_lag_seconds", text)
        self._late.add_to(family)
        yield family


class Metrics(Feature):
    """Serves METRICS_PATH. It comes last, because it shows the metrics of all features before it."""

    settings: MetricsSettings

    def attach(self, replica: Replica) -> Parts:
        lag = LoopLag()
        requests = RequestMetrics(replica.tool_paths, lambda: replica.lifecycle.state == "draining")
        state = ReplicaMetrics(
            replica.name, replica.lifecycle, replica.limits.in_flight, replica.connections, replica.peers
        )
        collectors = [requests, lag, state, *replica.attached("collectors")]
        token = self.settings.metrics_token
        page, answering = metrics_route(collectors, replica.attached("refresh"), token, self.settings.metrics_path)
        # With a token of their own, the metrics need it, and a caller's key does not open them.
        exact = {page.path: page.handle} if token else {}
        return Parts(routes=[page], exact=exact, observers=[requests.observer()], running=[lag.running(), answering])
