"""`python -m examples.analytics.load`: make the tables, the generated sales and the reading role in PostgreSQL.

`DATABASE_URL` is, for this one time, a role's that may make tables and roles. All is done, or nothing.
"""

import asyncio
import sys
from pathlib import Path

from mcp_swarm import StartupError

from examples.analytics import _generated
from examples.analytics._postgres import AnalyticsSettings, asyncpg


async def load(url: str) -> None:
    """Make and fill the tables.

    Raises:
        OSError, asyncpg.PostgresError, asyncpg.InterfaceError: why nothing was made.
    """
    connection = await asyncpg.connect(url, timeout=10)
    try:
        async with connection.transaction():
            await connection.execute(_sql("schema.sql"))
            await connection.copy_records_to_table("customers", records=_generated.customers())
            await connection.copy_records_to_table("sales", records=_generated.sales())
            await connection.execute(_sql("reader.sql"))
    finally:
        await connection.close(timeout=10)


def _sql(name: str) -> str:
    return Path(__file__).with_name(name).read_text()


def main() -> int:
    """Run the command; returns the exit code."""
    try:
        url = AnalyticsSettings.load().database_url
        if url is None:
            raise StartupError("DATABASE_URL: required; the database to make tables in")
        asyncio.run(load(url.get_secret_value()))
    except StartupError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        print(f"Nothing was made: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print("Made customers, sales and the role analytics_reader; give it a password: \\password analytics_reader")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
