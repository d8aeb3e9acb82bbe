"""Fixtures: the pack `examples.analytics` on each of its databases."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from conftest import run
from tests.examples.analytics.postgres import PASSWORD, PostgresServer
from tests.examples.conftest import Pack, imported


class Analytics(Pack):
    """The pack, its event loop and its database."""

    def __init__(self, runner: asyncio.Runner, module: ModuleType) -> None:
        super().__init__(runner, module)
        self.database = module._DATABASE

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement in the tools' database."""
        found: list[tuple[Any, ...]] = self.runner.run(self.database.rows(statement, *values))
        return found

    def crowd(self, count: int, statement: str) -> list[Any]:
        """Run a statement many times at the same moment, and return the rows or errors."""

        async def together() -> list[Any]:
            asked = (self.database.rows(statement) for _ in range(count))
            return await asyncio.gather(*asked, return_exceptions=True)

        return self.runner.run(together())


@contextmanager
def opened(url: str, size: str = "") -> Iterator[Analytics]:
    """Import the pack for a database."""
    with asyncio.Runner() as runner, imported("analytics", DATABASE_URL=url, DATABASE_POOL_SIZE=size) as module:
        found = Analytics(runner, module)
        try:
            yield found
        finally:
            runner.run(found.database.close())


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL with the generated sales and a reader role with a password."""
    server = PostgresServer()
    try:
        server.start()
        done = run(sys.executable, "-m", "examples.analytics.load", DATABASE_URL=server.owners_url)
        assert done.returncode == 0, done.stderr
        server.ask(f"ALTER ROLE analytics_reader PASSWORD '{PASSWORD}'")
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def analytics(request: pytest.FixtureRequest) -> Iterator[Analytics]:
    """The pack, on one database after the other."""
    url = request.getfixturevalue("postgres").url() if request.param == "postgres" else ""
    with opened(url) as found:
        yield found
