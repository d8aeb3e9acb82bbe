"""Fixtures: the pack `examples.analytics` on each of its databases."""

import asyncio
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
from pydantic import validate_call

from conftest import run
from tests.examples.analytics.postgres import PASSWORD, PostgresServer


class Analytics:
    """The pack and its event loop."""

    def __init__(self, runner: asyncio.Runner, module: ModuleType) -> None:
        self.runner = runner
        self.module = module

    def ask(self, tool: str, **arguments: Any) -> Any:
        """Call a tool, with the argument checks of the server, and return the result."""
        return self.runner.run(validate_call(getattr(self.module, tool))(**arguments))

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement in the tools' database."""
        found: list[tuple[Any, ...]] = self.runner.run(self.module._DATABASE.rows(statement, *values))
        return found

    def crowd(self, count: int, statement: str) -> list[Any]:
        """Run a statement many times at the same moment, and return the rows or errors."""

        async def together() -> list[Any]:
            asked = (self.module._DATABASE.rows(statement) for _ in range(count))
            return await asyncio.gather(*asked, return_exceptions=True)

        return self.runner.run(together())


@contextmanager
def opened(url: str, size: str = "") -> Iterator[Analytics]:
    """Import the pack for a database."""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setenv("DATABASE_URL", url)
        patch.setenv("DATABASE_POOL_SIZE", size)
        sys.modules.pop("examples.analytics.tools", None)
        module = importlib.import_module("examples.analytics.tools")
        try:
            yield Analytics(runner, module)
        finally:
            runner.run(module._DATABASE.close())
            sys.modules.pop("examples.analytics.tools", None)


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
