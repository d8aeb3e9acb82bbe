"""The generated sales in SQLite's memory: made at the first question, and read only from then on.

Each replica makes them for itself, and all make the same ones, so any of them gives the same answer.
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
"""SQLite's instructions between two looks at the time: well under a millisecond's worth."""


class Generated:
    """The generated sales."""

    def __init__(self) -> None:
        self._one_by_one = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a statement finds; `$1`, `$2`, … in it stand for the values.

        Raises:
            ToolError: it took longer than five seconds.
        """
        # In a thread, since SQLite blocks.
        return await asyncio.to_thread(self._rows, statement, values)

    async def close(self) -> None:
        """Forget the sales; the next question makes them anew."""
        with self._one_by_one:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _rows(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        end = time.monotonic() + _SECONDS
        bound = {
            str(number): value.isoformat() if isinstance(value, date) else value
            for number, value in enumerate(values, 1)
        }
        if not self._one_by_one.acquire(timeout=_SECONDS):
            raise _too_long()
        try:
            if self._connection is None:
                self._connection = _made()
            # A statement goes on when its call was given up, but not for longer than this.
            self._connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            return self._connection.execute(statement, bound).fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise _too_long() from None
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


def _too_long() -> ToolError:
    return ToolError(f"the database did not answer within {_SECONDS:g} s; ask about less time")
