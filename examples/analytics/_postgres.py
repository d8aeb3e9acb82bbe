"""Read-only access to PostgreSQL through a bounded connection pool.

Three independent measures prevent writes: the tools have no statement that writes, the transactions of these
connections are read-only, and the role of `reader.sql` can only read.
"""

import asyncio
import logging
import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from anyreplica import Settings
from fastmcp.exceptions import ToolError
from pydantic import Field, SecretStr, field_validator

try:
    import asyncpg  # type: ignore[import-untyped]
except ImportError:  # Without DATABASE_URL, the pack uses SQLite and does not need asyncpg.
    asyncpg = None

__all__ = ["AnalyticsSettings", "Postgres", "asyncpg"]

logger = logging.getLogger(__name__)

_SECONDS = 5.0
_SPARE_SECONDS = 1.0
"""Time for which a call waits after the database's own limit for a statement has ended, in seconds. The call needs a
limit too, because a lost database never answers."""
_IDLE_SECONDS = 300.0
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


class AnalyticsSettings(Settings):
    """The settings of this pack."""

    database_url: SecretStr | None = Field(
        None, description="URL of the PostgreSQL database, with user and password. Empty: generated sales in SQLite."
    )
    database_pool_size: int = Field(
        5, ge=1, le=100, description="Maximum number of connections from one replica to the database."
    )

    @field_validator("database_url")
    @classmethod
    def _usable(cls, value: SecretStr | None) -> SecretStr | None:
        url = value.get_secret_value() if value else ""
        if url and not _fits(url):
            raise ValueError(
                "must be a URL like postgresql://user:password@host:5432/database?sslmode=verify-full; percent-encode "
                "characters other than A-Z a-z 0-9 - . _ ~ in user and password; the only parameters are sslmode and "
                "sslrootcert"
            )
        if url and asyncpg is None:
            raise ValueError("needs the package asyncpg, which is not installed")
        return SecretStr(url) if url else None


def _fits(url: str) -> bool:
    """Return whether a URL names a host and a database, and no part of the password can be read as host or database."""
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
    """A PostgreSQL database; the first query opens the first connection.

    Args:
        url: URL with user and password.
        size: Maximum number of connections.
        limit_seconds: Time limit for a statement in the database, in seconds.
        spare_seconds: Time for which a call waits after `limit_seconds` have passed, in seconds.
    """

    def __init__(
        self, url: str, size: int, *, limit_seconds: float = _SECONDS, spare_seconds: float = _SPARE_SECONDS
    ) -> None:
        self._url = url
        self._size = size
        self._limit_seconds = limit_seconds
        self._spare_seconds = spare_seconds
        self._opening = asyncio.Lock()
        self._pool: Any = None

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; `$1`, `$2`, … in the statement stand for the values.

        Raises:
            ToolError: The database does not answer in time or can't be reached.
        """
        try:
            async with asyncio.timeout(self._limit_seconds + self._spare_seconds):
                pool = await self._opened()
                connection = await pool.acquire()
                try:
                    return [tuple(row) for row in await connection.fetch(statement, *values)]
                finally:
                    # After a cancelled call, `release` waits until the database has confirmed the end of the
                    # statement. The time limit is for a database that never confirms.
                    await pool.release(connection, timeout=self._spare_seconds)
        except (TimeoutError, asyncpg.QueryCanceledError):
            late = f"The database did not answer within {self._limit_seconds:g} s; ask for a shorter period."
            raise ToolError(late) from None
        except (OSError, asyncpg.InterfaceError, *_unreachable()) as error:
            logger.warning("Can't reach the database (DATABASE_URL): %s: %s", type(error).__name__, error)
            raise ToolError("The database can't be reached; retry later.") from None

    async def close(self) -> None:
        """Close all connections; the next query opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(self._spare_seconds):
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
                    timeout=self._limit_seconds,
                    max_inactive_connection_lifetime=_IDLE_SECONDS,
                    server_settings={
                        "application_name": "examples.analytics",
                        "default_transaction_read_only": "on",
                        "statement_timeout": f"{self._limit_seconds * 1000:.0f}",
                        "DateStyle": "ISO",  # The statements cut year and month out of a date's text.
                    },
                )
            return self._pool


def _unreachable() -> tuple[type[Exception], ...]:
    """Return the errors that mean that the database is down or refuses connections."""
    return (
        asyncpg.PostgresConnectionError,
        asyncpg.OperatorInterventionError,
        asyncpg.InsufficientResourcesError,
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
    )
