"""A database that is slow, hangs, is busy or is down: callers get an error soon."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest
from fastmcp.exceptions import ToolError

from anyreplica.settings.errors import StartupError
from conftest import StartServer, free_port, until
from examples.analytics import _postgres, load
from examples.analytics._postgres import Postgres
from examples.analytics._sqlite import Generated
from tests.calls import call, text
from tests.examples.analytics.conftest import Analytics, opened
from tests.examples.analytics.postgres import PostgresServer
from tests.examples.conftest import refused_start

pytestmark = pytest.mark.slow

AGAIN = "SELECT COUNT(*) FROM customers"
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
GONE = "The database can't be reached; retry later."
LATE = "The database did not answer within 0.5 s; ask for a shorter period."
needs_postgres = pytest.mark.needs("postgres")


@contextmanager
def short(url: str) -> Iterator[Analytics]:
    """The pack with a database that limits statements to 0.5 s. It has two connections to PostgreSQL."""
    with opened(url) as found:
        found.database = Postgres(url, 2, limit_seconds=0.5, spare_seconds=0.3) if url else Generated(limit_seconds=0.5)
        yield found


@pytest.fixture
def small(postgres: PostgresServer) -> Iterator[Analytics]:
    """The pack with PostgreSQL and short limits."""
    with short(postgres.url()) as found:
        yield found


def refusal(analytics: Analytics, statement: str) -> str:
    """Return the error that the tool would give its caller."""
    with pytest.raises(ToolError) as error:
        analytics.rows(statement)
    return str(error.value)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=[needs_postgres, pytest.mark.servers])])
def test_a_statement_that_takes_too_long(request: pytest.FixtureRequest, kind: str) -> None:
    """A statement beyond its time limit is stopped, and the database serves other statements."""
    url = request.getfixturevalue("postgres").url() if kind == "postgres" else ""
    with short(url) as analytics:
        assert refusal(analytics, ENDLESS) == LATE
        assert {type(each) for each in analytics.crowd(3, ENDLESS)} == {ToolError}
        assert analytics.rows(AGAIN) == [(120,)]


@needs_postgres
def test_nothing_runs_on_in_the_database(small: Analytics, postgres: PostgresServer) -> None:
    """No statement runs on in the database after its time limit or after its call was cancelled."""
    ours = "SELECT query FROM pg_stat_activity WHERE state = 'active' AND usename = 'analytics_reader'"
    assert "did not answer" in refusal(small, "SELECT pg_sleep(60)")
    assert postgres.ask(ours) == []
    with pytest.raises(TimeoutError):
        small.runner.run(asyncio.wait_for(small.database.rows("SELECT pg_sleep(60)"), 0.1))
    until(lambda: postgres.ask(ours) == [], "the statement of the cancelled call has ended")
    assert small.rows(AGAIN) == [(120,)]


@needs_postgres
def test_more_calls_than_connections(small: Analytics) -> None:
    """Calls wait for a connection; one that waits too long gets an error, and the next one is served."""
    count = "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'examples.analytics'"
    found = small.crowd(100, count)
    errors = [each for each in found if isinstance(each, ToolError)]  # on a busy machine, some calls wait too long
    assert {str(error) for error in errors} <= {LATE}
    counts = {each[0][0] for each in found if not isinstance(each, ToolError)}
    assert counts
    assert counts <= {1, 2}
    assert {str(error) for error in small.crowd(20, "SELECT pg_sleep(60)")} == {LATE}
    assert small.rows(count)[0][0] <= 2
    assert small.rows(AGAIN) == [(120,)]


@needs_postgres
def test_a_connection_that_hangs(small: Analytics) -> None:
    """A connection that hangs is replaced by a new one."""
    ((process,),) = small.rows("SELECT pg_backend_pid()")
    os.kill(process, signal.SIGSTOP)
    try:
        assert "did not answer" in refusal(small, AGAIN)
        assert small.rows(AGAIN) == [(120,)]
    finally:
        os.kill(process, signal.SIGCONT)


def test_a_port_where_nobody_answers() -> None:
    """Each of many calls to a port where nothing answers gets an error about the time limit."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with short(f"postgresql://me:hunter2@127.0.0.1:{silent.getsockname()[1]}/shop") as analytics:
            said = {str(error) for error in analytics.crowd(10, AGAIN)}
    assert said == {LATE}


@needs_postgres
def test_a_database_that_goes_away_and_comes_back(postgres: PostgresServer) -> None:
    """If the database goes down, all calls get an error at once; when it is back, calls succeed again."""

    async def ended() -> None:
        working = asyncio.create_task(analytics.database.rows("SELECT pg_sleep(60)"))
        active = "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'"
        await asyncio.to_thread(until, lambda: postgres.ask(active) != [], "it works")
        await asyncio.to_thread(postgres.kill)
        await working

    with opened(postgres.url()) as analytics:
        try:
            with pytest.raises(ToolError, match=GONE):
                analytics.runner.run(ended())
            assert {str(error) for error in analytics.crowd(20, AGAIN)} == {GONE}
        finally:
            postgres.start()
        assert analytics.rows(AGAIN) == [(120,)]


@needs_postgres
@pytest.mark.parametrize(
    ("user", "password", "database", "logged"),
    [
        ("analytics_reader", "hunter3", "postgres", "InvalidPasswordError"),
        ("nobody", "hunter3", "postgres", "InvalidPasswordError"),
        ("owner", "owner%27s-own", "nothing", "InvalidCatalogNameError"),
    ],
)
def test_a_failed_login_is_explained_only_in_the_log(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture, user: str, password: str, database: str, logged: str
) -> None:
    """A failed login is explained in the log but not to the caller, and no password is shown."""
    with opened(postgres.url(user, password, database)) as analytics:
        assert refusal(analytics, AGAIN) == GONE
    assert logged in caplog.text
    assert password not in caplog.text


FORBIDDEN = ["DELETE FROM sales", "CREATE TABLE mine (id integer)", "SELECT rolpassword FROM pg_authid"]


@needs_postgres
def test_the_reader_and_the_pack_only_read(postgres: PostgresServer) -> None:
    """The reader role reads only the two tables, and the pack only reads even if its role may do more."""

    async def attempts() -> None:
        connection = await asyncpg.connect(postgres.url())
        try:
            assert await connection.fetchval("SHOW default_transaction_read_only") == "on"
            assert await connection.fetchval("SHOW statement_timeout") == "5s"
            await connection.execute("SET default_transaction_read_only = off")
            for statement in FORBIDDEN:
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(attempts())
    with opened(postgres.owners_url) as analytics:
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            analytics.rows("DELETE FROM sales")
        assert analytics.rows("SHOW statement_timeout") == [("5s",)]
        assert analytics.rows("SHOW is_superuser") == [("on",)]


@needs_postgres
def test_tables_are_made_once(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`examples.analytics.load` does not change existing tables, and prints one line for each failure."""
    for url, code, why in (
        (postgres.owners_url, 1, 'The database is unchanged: relation "customers" already exists'),
        (postgres.url(), 1, "The database is unchanged: "),
        (f"postgresql://me:hunter2@127.0.0.1:{free_port()}/shop", 1, "The database is unchanged: "),
        ("", 2, "DATABASE_URL: required"),
        ("postgres://", 2, "DATABASE_URL: must be a URL like"),
    ):
        monkeypatch.setenv("DATABASE_URL", url)
        assert load.main() == code
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(why)
        assert "hunter2" not in line
    assert postgres.ask("SELECT COUNT(*) FROM sales") == [10_000]


@needs_postgres
def test_a_replica_outlives_its_database(postgres: PostgresServer, start_server: StartServer, tmp_path: Path) -> None:
    """A replica is ready without its database, whose password may be in a file, and recovers with it."""
    (tmp_path / "database_url").write_text(f"{postgres.url()}\n")
    settings = {"DATABASE_URL": "", "SECRETS_DIR": str(tmp_path), "LOG_LEVEL": "DEBUG", "DATABASE_POOL_SIZE": "2"}
    postgres.kill()
    try:
        replica = start_server(MCP_COMPONENTS="server,examples.analytics", **settings)
        assert text(call(replica.url, "get_sales_by_region")) == GONE
        assert text(call(replica.url, "echo", {"message": "others are served"})) == "others are served"
    finally:
        postgres.start()
    assert len(call(replica.url, "get_sales_by_region")["structuredContent"]["regions"]) == 4
    assert replica.stop() == 0
    assert "Can't reach the database (DATABASE_URL): " in replica.output
    assert "hunter2" not in replica.output
    assert "Traceback" not in replica.output


BASE = "postgresql://me:hunter2@db"
NO_URLS = ["shop", "sqlite:///shop.db", "http://me:hunter2@db/shop", "postgresql:///shop", "postgresql://[", BASE]
NO_URLS += [
    f"{BASE}{rest}" for rest in ("/", "/a/b", ":0/shop", ":70000/shop", ":a/shop", ",db2/shop", "/shop#", "/s\n")
]
NO_URLS += [f"{BASE}/shop?{query}" for query in ("a=b", "sslmode=on", "options=-c", "password=hunter2", "sslmode")]
NO_URLS += [f"postgresql://me:1{odd}hunter2@db/shop" for odd in "/?#"]


@pytest.mark.parametrize(
    ("url", "size", "why"),
    [
        *((url, "", "DATABASE_URL: must be a URL like postgresql://") for url in NO_URLS),
        *(("", size, "DATABASE_POOL_SIZE=") for size in ("0", "101", "-1", "five", "٥", "9" * 5000)),
    ],
)
def test_a_wrong_setting_stops_the_start(url: str, size: str, why: str) -> None:
    """A wrong setting stops the start; the error names the variable and shows no password."""
    refused_start("analytics", why, DATABASE_URL=url, DATABASE_POOL_SIZE=size)


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package asyncpg, SQLite works, and the URL of a PostgreSQL database stops the start."""
    monkeypatch.setattr(_postgres, "asyncpg", None)
    with opened("") as analytics:
        assert analytics.rows(AGAIN) == [(120,)]
    monkeypatch.setenv("DATABASE_URL", "postgresql://me@db/shop")
    with pytest.raises(StartupError, match="needs the package asyncpg, which is not installed"):
        _postgres.AnalyticsSettings.load()
