"""A PostgreSQL for tests, on a private port of 127.0.0.1. A user other than root runs it."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from conftest import free_port, until

PASSWORD = "hunter2/@:%"
QUOTED = "hunter2%2F%40%3A%25"
_SUPERUSERS = "owner's-own"


class PostgresServer:
    """A PostgreSQL that keeps its data when it is stopped and started again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.log = self.folder / "log"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        # PostgreSQL refuses to run as root. If root runs pytest, only root can read pytest's own folders.
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self.folder, "nobody", "nogroup")
        secret = self.folder / "password"
        secret.write_text(_SUPERUSERS)
        secret.chmod(0o644)
        options = ["--username=owner", f"--pwfile={secret}", "--auth=scram-sha-256", "--no-sync"]
        initdb = [_binary("initdb"), f"--pgdata={self.folder}/data", "--no-locale", "--encoding=UTF8", *options]
        done = subprocess.run(initdb, capture_output=True, check=False, cwd=self.folder, timeout=60, **self._user)
        assert done.returncode == 0, done.stderr

    def url(self, user: str = "analytics_reader", password: str = QUOTED, database: str = "postgres") -> str:
        """Return the URL of the database for a user."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    @property
    def owners_url(self) -> str:
        """The URL of the database for the superuser."""
        return self.url("owner", "owner%27s-own")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "autovacuum=off"]
        given = [word for option in options for word in ("-c", option)]
        command = [_binary("postgres"), "-D", f"{self.folder}/data", "-p", str(self.port), *given]
        started: dict[str, Any] = {"cwd": self.folder, "start_new_session": True, **self._user}
        with self.log.open("ab") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, **started)
        ready = [_binary("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        what = f"PostgreSQL answers; it printed:\n{self.log.read_text()}"
        until(lambda: subprocess.run(ready, check=False).returncode == 0, what)

    def kill(self) -> None:
        """Stop the server and all connections at once."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(60)
            self.process = None

    def remove(self) -> None:
        """Stop the server and delete its files."""
        self.kill()
        shutil.rmtree(self.folder)

    def ask(self, statement: str) -> list[Any]:
        """Run a statement as the superuser and return the first column."""

        async def ask() -> list[Any]:
            connection = await asyncpg.connect(self.owners_url)
            try:
                return [row[0] for row in await connection.fetch(statement)]
            finally:
                await connection.close()

        return asyncio.run(ask())


def _binary(name: str) -> str:
    newest = max(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]), default=None)
    return shutil.which(name) or str(newest)
