"""The generated sales in an in-memory SQLite database, which is created by the first query and then read-only.

Each replica creates its own database. All databases have the same content, so all replicas give the same answers.
"""

import asyncio
import sqlite3
import threading
import time
from datetime import date
from pathlib import Path
from typing import Any

from fastmcp.exceptions import ToolError

from examples.analytics import _generated

_SECONDS = 5.0
_STEPS = 10_000
"""Number of SQLite instructions between two checks of the time limit; they take well under 1 ms."""


class Generated:
    """The database with the generated sales.

    Args:
        limit_seconds: Time limit for a statement, with its wait for other statements, in seconds.
    """

    def __init__(self, *, limit_seconds: float = _SECONDS) -> None:
        self._limit_seconds = limit_seconds
        self._one_by_one = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; `$1`, `$2`, … in the statement stand for the values.

        Raises:
            ToolError: The statement, with its wait for other statements, took longer than `limit_seconds`.
        """
        # A thread, because SQLite blocks.
        return await asyncio.to_thread(self._rows, statement, values)

    async def close(self) -> None:
        """Close the database; the next query creates it again."""
        with self._one_by_one:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _rows(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        end = time.monotonic() + self._limit_seconds
        bound = {
            str(number): value.isoformat() if isinstance(value, date) else value
            for number, value in enumerate(values, 1)
        }
        if not self._one_by_one.acquire(timeout=self._limit_seconds):
            raise _too_long(self._limit_seconds)
        try:
            if self._connection is None:
                self._connection = _made()
            # If a call is cancelled, its statement continues in the thread, but not beyond this limit.
            self._connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            return self._connection.execute(statement, bound).fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise _too_long(self._limit_seconds) from None
            raise
        finally:
            self._one_by_one.release()


def _made() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(Path(__file__).with_name("schema.sql").read_text())
    connection.executemany("INSERT INTO customers VALUES (?, ?, ?)", _generated.customers())
    sales = ((number, customer, day.isoformat(), cents) for number, customer, day, cents in _generated.sales())
    connection.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", sales)
    connection.commit()
    connection.execute("PRAGMA query_only = ON")
    return connection


def _too_long(seconds: float) -> ToolError:
    return ToolError(f"The database did not answer within {seconds:g} s; ask for a shorter period.")
