"""The part of Redis in which the replicas share logins."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anyreplica.auth.caller import digest
from anyreplica.features.login.outage import LoginUnavailable, note_outage
from anyreplica.shared.lost_redis import reason, translate_redis_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)


class SharedLogins:
    """The client of Redis, with the names of the keys of logins. `name` is the name of the server."""

    def __init__(self, redis: "Redis", name: str) -> None:
        self.redis = redis
        self._prefix = f"{name}:login"
        self._lost = False

    def key(self, kind: str, *parts: str) -> str:
        """Return the name of a key. It contains only a hash of `parts`, because they may be secret."""
        return f"{self._prefix}:{kind}:{digest(*parts)}"

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Raise `LoginUnavailable` if Redis cannot be reached inside the `with` block."""
        try:
            with translate_redis_errors():
                yield
        except OSError as error:
            if not self._lost:
                logger.warning("Redis can't be reached: logins are refused until it answers: %s", reason(error))
            self._lost = True
            note_outage()
            raise LoginUnavailable(reason(error)) from None
        if self._lost:
            self._lost = False
            logger.warning("Redis can be reached again: logins are accepted")
