"""PostgreSQL, read only: a bounded pool of connections on the event loop that asks first.

Three things keep a statement from writing, and any one of them is enough: the tools hold none that does, transactions
of these connections are read-only, and the role of `reader.sql` may only read.
"""

import asyncio
import logging
import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fastmcp.exceptions import ToolError
from mcp_swarm import Settings
from pydantic import Field, SecretStr, field_validator

try:
    import asyncpg  # type: ignore[import-untyped]
except ImportError:  # which nobody needs who asks SQLite
    asyncpg = None

__all__ = ["AnalyticsSettings", "Postgres", "asyncpg"]

logger = logging.getLogger(__name__)

_SECONDS = 5.0
_SPARE_SECONDS = 1.0
"""How much longer to wait than the database lets a statement run: it may hang, or be gone without a word."""
_IDLE_SECONDS = 300.0
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


class AnalyticsSettings(Settings):
    """This pack's settings."""

    database_url: SecretStr | None = Field(None, description="A database of PostgreSQL's, with user and password.")
    database_pool_size: int = Field(5, ge=1, le=100, description="Most connections of a replica to that database.")

    @field_validator("database_url")
    @classmethod
    def _usable(cls, value: SecretStr | None) -> SecretStr | None:
        url = value.get_secret_value() if value else ""
        if url and not _fits(url):
            raise ValueError(
                "a URL like postgresql://user:password@host:5432/database?sslmode=verify-full; what is none of "
                "A-Z a-z 0-9 - . _ ~ in user and password is percent-encoded, and sslmode and sslrootcert are all that "
                "may follow '?'"
            )
        if url and asyncpg is None:
            raise ValueError("the package asyncpg is not installed")
        return SecretStr(url) if url else None


def _fits(url: str) -> bool:
    """Whether a URL names host and database, and nothing of its password can be taken for either."""
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)) if parts.query else {}
        port = 5432 if parts.port is None else parts.port
    except ValueError:
        return False
    return (
        url.isprintable()
        and parts.scheme in ("postgresql", "postgres")
        and bool(parts.hostname)
        and "," not in parts.netloc
        and port > 0
        and re.fullmatch(r"/[^/@]+", parts.path) is not None
        and "#" not in url
        and query.keys() <= {"sslmode", "sslrootcert"}
        and query.get("sslmode", "prefer") in _SSL_MODES
    )


class Postgres:
    """A database of PostgreSQL's; nothing is asked of it before the first question.

    Args:
        url: where it is, and who asks.
        size: the most connections.
    """

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self._opening = asyncio.Lock()
        self._pool: Any = None

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a statement finds; `$1`, `$2`, … in it stand for the values.

        Raises:
            ToolError: there is no answer in time, or no database.
        """
        try:
            async with asyncio.timeout(_SECONDS + _SPARE_SECONDS):
                pool = await self._opened()
                connection = await pool.acquire()
                try:
                    return [tuple(row) for row in await connection.fetch(statement, *values)]
                finally:
                    # What was given up is cancelled there first, so that it keeps its place in the pool until it ends;
                    # a database that hangs never confirms it.
                    await pool.release(connection, timeout=_SPARE_SECONDS)
        except (TimeoutError, asyncpg.QueryCanceledError):
            raise ToolError(f"the database did not answer within {_SECONDS:g} s; ask about less time") from None
        except (OSError, asyncpg.InterfaceError, *_unreachable()) as error:
            logger.warning("the database can't be reached: %s: %s", type(error).__name__, error)
            raise ToolError("the database can't be reached; try again later") from None

    async def close(self) -> None:
        """Close all connections; the next question opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(_SPARE_SECONDS):
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    async def _opened(self) -> Any:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._url,
                    min_size=0,
                    max_size=self._size,
                    timeout=_SECONDS,
                    max_inactive_connection_lifetime=_IDLE_SECONDS,
                    server_settings={
                        "application_name": "examples.analytics",
                        "default_transaction_read_only": "on",
                        "statement_timeout": f"{_SECONDS * 1000:.0f}",
                        "DateStyle": "ISO",  # a day's text is cut into month and year
                    },
                )
            return self._pool


def _unreachable() -> tuple[type[Exception], ...]:
    """Errors of a database that isn't there, or lets nobody in: the fault of none of its callers."""
    return (
        asyncpg.PostgresConnectionError,
        asyncpg.OperatorInterventionError,
        asyncpg.InsufficientResourcesError,
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
    )
