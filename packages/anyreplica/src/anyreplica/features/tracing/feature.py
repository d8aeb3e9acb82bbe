"""The feature *tracing*: spans of requests and jobs, sent to OTEL_EXPORTER_OTLP_ENDPOINT."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from anyreplica.feature import Feature, Parts, Position, Replica
from anyreplica.features.tracing.middleware import TracingMiddleware, read_parent
from anyreplica.features.tracing.tracing import check, tracing


class Tracing(Feature):
    """Makes a span for each request. It comes first, because the core checks only once whether tracing is on."""

    def check(self) -> None:
        check(self.settings)

    check_worker = check

    def attach(self, replica: Replica) -> Parts:
        traced = tracing(self.settings, replica.name)
        if traced is None:
            return Parts()
        around = partial(TracingMiddleware, settings=self.settings)
        return Parts(middleware=[(Position.OUTERMOST, around)], on_message=[read_parent], running=[traced.running()])

    def in_worker(self, name: str) -> Sequence[AbstractAsyncContextManager[None]]:
        traced = tracing(self.settings, name)
        return [] if traced is None else [traced.running()]
