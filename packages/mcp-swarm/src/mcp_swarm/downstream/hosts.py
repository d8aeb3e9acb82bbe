"""What is known of each host that is called."""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from mcp_swarm.downstream.breaker import Breaker, State
from mcp_swarm.downstream.budget import Budget
from mcp_swarm.downstream.errors import OUTCOMES, Outcome
from mcp_swarm.downstream.places import Places
from mcp_swarm.settings.downstream import DownstreamSettings

logger = logging.getLogger(__name__)

MOST = 256
"""Hosts that are remembered; which one a caller may name is a tool's to bound."""


@dataclass(frozen=True)
class HostState:
    """What metrics tell of a host.

    Attributes:
        outcomes: how many calls ended how, since the host is known.
        retries: how many tries there were beyond the first of each call.
    """

    breaker: State
    in_flight: int
    waiting: int
    outcomes: Mapping[Outcome, int]
    retries: int


class Host:
    """One of them.

    Args:
        name: its name and, unless it is the scheme's own, its port.
    """

    def __init__(self, name: str, settings: DownstreamSettings) -> None:
        self.name = name
        self.breaker = Breaker(settings.downstream_breaker_failures, settings.downstream_breaker_seconds)
        self.places = Places(settings.downstream_concurrency)
        self.budget = Budget()
        self.outcomes: dict[Outcome, int] = dict.fromkeys(OUTCOMES, 0)
        self.retries = 0
        self.calls = 0
        """That are under way, whether they run, wait, or pause between two tries."""

    @property
    def state(self) -> HostState:
        """As it is now."""
        return HostState(self.breaker.state, self.places.taken, self.places.waiting, dict(self.outcomes), self.retries)

    def leave(self, turn: int, good: bool | None) -> None:
        """As `Breaker.leave`, and log what changes."""
        before = self.breaker.state
        self.breaker.leave(turn, good)
        if before == "closed" and self.breaker.state == "open":
            logger.warning("%s fails again and again: it is left alone, but for a call now and then", self.name)
        elif before == "half-open" and self.breaker.state == "closed":
            logger.info("%s is back", self.name)


class Hosts:
    """Those that were called last.

    Attributes:
        settings: of hosts that are called for the first time from now on.
    """

    def __init__(self, settings: DownstreamSettings) -> None:
        self.settings = settings
        self._known: OrderedDict[str, Host] = OrderedDict()

    def of(self, name: str) -> Host:
        """A host by its name."""
        host = self._known.get(name)
        if host is None:
            self._forget()
            host = self._known[name] = Host(name, self.settings)
        self._known.move_to_end(name)
        return host

    def state(self) -> dict[str, HostState]:
        """Each host's, by its name."""
        return {name: host.state for name, host in self._known.items()}

    def configure(self, settings: DownstreamSettings) -> None:
        """Forget all hosts, and go by these settings."""
        self.settings = settings
        self._known.clear()

    def _forget(self) -> None:
        """Forget those that were called longest ago; one that is being called is kept."""
        if len(self._known) >= MOST:
            idle = [name for name, host in self._known.items() if not host.calls]
            for name in idle[: len(self._known) - MOST + 1]:
                del self._known[name]
