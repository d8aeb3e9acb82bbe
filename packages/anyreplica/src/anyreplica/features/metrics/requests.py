"""Metrics about the requests of a replica: their number, outcome and duration."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mcp_types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from starlette.types import Scope

from anyreplica.http.access_log import CLIENT_GONE, Write
from anyreplica.http.durations import Durations
from anyreplica.http.request_record import FAULT, NO_ERROR, RECORD, RPC_ERROR, Pair, RequestRecord

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
