"""What happens to work that needs Redis while Redis cannot be reached: three policies.

- `Outage.required`: the work fails, and its caller gets an error that says when to try again.
- `Outage.best_effort`: the request goes on without the work.
- `retry_for` (`shared/lost_redis.py`): the work is tried again for some seconds, because it belongs to something that
  waits anyway. If it fails after that, one of the two other policies holds.

The time limits of the commands come from the Redis client: see `shared/lost_redis.py`. For each consequence of an
outage, the log gets one line when the outage begins, and one line when it is over.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from anyreplica.shared.lost_redis import reason, translate_redis_errors


class Outage:
    """One consequence of an outage of Redis.

    Args:
        logger: the logger of the module that uses Redis.
        consequence: what this replica does during the outage, for the log.

    Attributes:
        is_on: whether Redis could not be reached the last time.
    """

    def __init__(self, logger: logging.Logger, consequence: str) -> None:
        self._logger = logger
        self._consequence = consequence
        self.is_on = False

    @contextmanager
    def required(self, refusal: Callable[[str], Exception]) -> Iterator[None]:
        """If Redis cannot be reached inside the `with` block, raise `refusal(reason)`."""
        was_on = self.is_on
        try:
            with translate_redis_errors():
                yield
        except OSError as error:
            self.begin(error)
            raise refusal(reason(error)) from None
        if was_on:  # a block that began before the outage does not show that the outage is over
            self.end()

    def best_effort(self) -> "AbstractContextManager[None, bool]":
        """If Redis cannot be reached inside the `with` block, go on after the block."""
        return self._best_effort()  # type: ignore[return-value]  # the checker must know that it may suppress errors

    @contextmanager
    def _best_effort(self) -> Iterator[None]:
        was_on = self.is_on
        try:
            with translate_redis_errors():
                yield
        except OSError as error:
            self.begin(error)
        else:
            if was_on:
                self.end()

    def begin(self, error: Exception) -> None:
        """Note that Redis could not be reached."""
        if not self.is_on:
            self._logger.warning("Redis can't be reached: %s: %s", self._consequence, reason(error))
        self.is_on = True

    def end(self) -> None:
        """Note that Redis could be reached."""
        if self.is_on:
            self._logger.warning("Redis can be reached again. Until now: %s", self._consequence)
        self.is_on = False
