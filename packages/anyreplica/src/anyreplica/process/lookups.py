"""Lookups of host names that end after their caller has given up."""

import asyncio
import logging
import socket
from typing import Any

logger = logging.getLogger(__name__)


def install(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, such a lookup that fails writes one line for debugging instead of a traceback.

    If a connection is cancelled, for example by a time limit, uvloop does not cancel the lookup of the host's name.
    The lookup can fail later, and nobody waits for its result. While a Redis and the name server are slow, each
    attempt to connect would write such a traceback. The caller has already logged that it gave up.
    """
    loop.set_exception_handler(_handle)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, socket.gaierror) and not isinstance(context.get("future"), asyncio.Task):
        logger.debug("A host name was not found, and nobody waits for it: %s", error)
    else:
        loop.default_exception_handler(context)
