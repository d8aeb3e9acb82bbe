"""Features that a replica offers only while it is the only replica."""

import logging
from collections.abc import Sequence
from typing import Protocol

from anyreplica.settings import Settings
from anyreplica.shared.peers import Peers

logger = logging.getLogger(__name__)


class AloneOnly(Protocol):
    """What a replica offers only while it is alone, because its data is in the memory of this replica.

    Attributes:
        needs: What the feature is, and which setting several replicas need for it.
    """

    @property
    def needs(self) -> str: ...

    def offer(self) -> None:
        """Offer it. This replica is the only one."""

    def withdraw(self, replicas: int) -> None:
        """Do not offer it any more, because there are several replicas."""


def follow_peers(peers: Peers, settings: Settings, parts: Sequence[AloneOnly]) -> None:
    """Withdraw these parts when another replica starts, and offer them when this one is the only replica again.

    The log gets one line for each change.
    """

    def follow() -> None:
        needs = [each.needs for each in parts]
        for each in parts:
            each.offer() if peers.is_single else each.withdraw(peers.count)
        if peers.is_single:
            offered = " and ".join(needs) or "everything"
            logger.warning("This replica is the only one again; it offers %s again", offered)
            return
        if not settings.request_state_ring:
            needs.append("multi-round tools (all replicas need the same REQUEST_STATE_KEYS)")
        if needs:
            text = "There are %d replicas now; this replica no longer offers %s"
            logger.warning(text, peers.count, ", ".join(needs))

    peers.on_change.append(follow)
