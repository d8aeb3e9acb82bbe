"""The sample server's app under one ASGI server.

python -m benchmarks.asgi_servers.serve uvicorn httptools
"""

import os
import sys

import uvicorn

from anyreplica import Settings
from anyreplica.process.replica import uvicorn_options

_APP = "server.server:create_app"


def main() -> None:
    """Serve until SIGTERM under the ASGI server that the command line names; for uvicorn also the `http` option."""
    settings = Settings.load()
    server, *protocol = sys.argv[1:]
    if server == "uvicorn":
        uvicorn.run(**{**uvicorn_options(settings, _APP), "http": protocol[0]})
        return
    commands = {
        "hypercorn": (f"{_APP}()", f"--bind=127.0.0.1:{settings.mcp_port}", "--worker-class=uvloop", "--workers=0"),
        "granian": (_APP, "--factory", "--interface=asgi", f"--port={settings.mcp_port}", "--loop=uvloop"),
    }
    os.execv(sys.executable, [sys.executable, "-m", server, *commands[server]])  # noqa: S606  # Both are constants.


if __name__ == "__main__":
    main()
