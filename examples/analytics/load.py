"""The command `python -m examples.analytics.load`, which creates the tables, the sales and the role in PostgreSQL.

For this command, the role in `DATABASE_URL` must be able to create tables and roles. The command runs in one
transaction: if an error occurs, nothing changes.
"""

import asyncio
import sys
from pathlib import Path

from anyreplica import StartupError

from examples.analytics import _generated
from examples.analytics._postgres import AnalyticsSettings, asyncpg


async def load(url: str) -> None:
    """Create the tables and the role, and fill the tables.

    Raises:
        OSError, asyncpg.PostgresError, asyncpg.InterfaceError: An error occurred, and nothing has changed.
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
    """Run the command and return the exit code."""
    try:
        url = AnalyticsSettings.load().database_url
        if url is None:
            raise StartupError("DATABASE_URL: required; set the URL of the database in which to create the tables")
        asyncio.run(load(url.get_secret_value()))
    except StartupError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        print(f"The database is unchanged: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print("Created the tables customers and sales, and the role analytics_reader.")  # noqa: T201
    print("Now give the role a password in psql: \\password analytics_reader")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
