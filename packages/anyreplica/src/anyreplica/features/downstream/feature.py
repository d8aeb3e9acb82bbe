"""The feature *downstream*: calls of APIs by tools and jobs."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from anyreplica.auth.caller import caller_token
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features import downstream
from anyreplica.features.downstream.exchange.entry_file import read
from anyreplica.features.downstream.metrics import DownstreamMetrics


class DownstreamCalls(Feature):
    """Sets up the client that tools use, and closes its connections after the lifespans of the components."""

    def check(self) -> None:
        if self.settings.downstream_tokens_file is not None:
            read(self.settings.downstream_tokens_file)

    check_worker = check

    def attach(self, replica: Replica) -> Parts:
        downstream.configure(self.settings, caller_token)
        return Parts(collectors=[DownstreamMetrics()], open_first=[downstream.closing()])

    def in_worker(self, name: str) -> Sequence[AbstractAsyncContextManager[None]]:
        downstream.configure(self.settings)
        return [downstream.closing()]
