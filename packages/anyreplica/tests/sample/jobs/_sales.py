"""A table of sales in SQLite's memory, for the sample's jobs. Put your own database in its place."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

REGIONS = ("north", "east", "south", "west")


@contextmanager
def sales() -> Iterator[sqlite3.Connection]:
    """Yield a connection with an empty table `sales (id, region, month, cents)`."""
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        connection.execute("CREATE TABLE sales (id INTEGER PRIMARY KEY, region TEXT, month INTEGER, cents INTEGER)")
        yield connection


def sell(connection: sqlite3.Connection, first: int, count: int) -> None:
    """Add `count` sales, starting at the id `first`. Equal ids always give equal sales."""
    rows = ((i, REGIONS[i % 4], i % 12 + 1, (i * 7919) % 10_000) for i in range(first, first + count))
    connection.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", rows)
