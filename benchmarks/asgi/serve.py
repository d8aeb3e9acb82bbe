"""The sample server's app under one of `variants.VARIANTS`, with or without TLS.

python -m benchmarks.asgi.serve VARIANT [CERTIFICATE KEY]
"""

import os
import sys

import uvicorn
from mcp_swarm import Settings
from mcp_swarm.process.replica import uvicorn_options

from benchmarks.asgi.variants import APP, VARIANTS


def main() -> int:
    """Serve until SIGTERM; returns the exit code."""
    name, *files = sys.argv[1:]
    variant = next(each for each in VARIANTS if each.name == name)
    settings = Settings.load()
    if variant.server != "uvicorn":
        command = variant.command(settings.mcp_port, *files)
        os.execv(sys.executable, [sys.executable, "-m", *command])  # noqa: S606  # the variants are fixed
    secured = dict(zip(("ssl_certfile", "ssl_keyfile"), files, strict=False))
    uvicorn.run(**{**uvicorn_options(settings, APP), "http": variant.protocol, **secured})
    return 0


if __name__ == "__main__":
    sys.exit(main())
