"""Metrics about requests to clients and about event streams of sessions."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from anyreplica.features.sessions.event_log import EventLog
from anyreplica.features.sessions.streams import SessionStreams
from anyreplica.http.durations import Durations

_KINDS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
    "ping": "ping",
}
_WAITS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class ClientRequestMetrics(Collector):
    """Counters of requests to clients, by kind and outcome, and the time until their answers."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str]] = Counter()
        self._waits: dict[str, Durations] = {}
        self.refused = 0
        """Number of answers that no call waited for."""

    def count(self, method: str, outcome: str, seconds: float | None = None) -> None:
        """Count a request with its outcome. `seconds` is the time from the request to its answer or its end."""
        kind = _KINDS.get(method, "other")
        self._requests[kind, outcome] += 1
        if seconds is not None:
            self._waits.setdefault(kind, Durations(_WAITS)).observe(seconds)

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """Return all metrics."""
        text = "Number of requests to handshake-protocol clients."
        requests = CounterMetricFamily("mcp_client_requests", text, None, ("kind", "outcome"))
        for labels, count in self._requests.items():
            requests.add_metric(labels, count)
        yield requests
        text = "Time from a request to a client to its answer or its end, in seconds."
        waits = HistogramMetricFamily("mcp_client_request_seconds", text, labels=("kind",))
        for kind, durations in self._waits.items():
            durations.add_to(waits, (kind,))
        yield waits
        text = "Number of answers of clients that were refused, because no request waited for them."
        yield CounterMetricFamily("mcp_client_answers_refused", text, self.refused)


class StreamMetrics(Collector):
    """The open event streams of sessions, the calls that clients have resumed, and the memory for such calls."""

    def __init__(self, streams: SessionStreams, events: EventLog) -> None:
        self._streams = streams
        self._events = events

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Return all metrics."""
        text = "Number of open event streams of sessions, outside of calls."
        yield GaugeMetricFamily("mcp_session_streams", text, self._streams.count)
        text = "Number of event streams of calls that clients have resumed at this replica."
        yield CounterMetricFamily("mcp_calls_resumed", text, self._events.resumed)
        text = "Number of calls that this replica has ended with an error, because the replica that ran them was lost."
        yield CounterMetricFamily("mcp_calls_lost", text, self._events.lost)
        text = "Number of calls that this replica has taken over, because their replica was lost or drained."
        yield CounterMetricFamily("mcp_calls_taken_over", text, self._events.adopted)
        text = "Number of calls, events and sealed rounds that were not kept, because of a limit of RESUME_BYTES."
        yield CounterMetricFamily("mcp_calls_not_kept", text, self._events.sizes.refused)
        text = "Bytes that this replica keeps for calls that clients can resume."
        yield GaugeMetricFamily("mcp_calls_kept_bytes", text, self._events.sizes.used)
