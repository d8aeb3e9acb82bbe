"""The template's app under one of `variants.VARIANTS`, with or without TLS.

python -m benchmarks.asgi.serve VARIANT [CERTIFICATE KEY]
"""

import sys
from pathlib import Path
from typing import Any

import uvicorn
from server.asgi import run as others
from server.asgi.portable import Portable
from starlette.types import ASGIApp

from benchmarks.asgi.variants import VARIANTS
from mcp_swarm import settings
from mcp_swarm.app import app
from mcp_swarm.process.replica import APP, uvicorn_options


def portable() -> ASGIApp:
    """The app for uvicorn's own protocols."""
    return Portable(app())


def main() -> int:
    """Serve until SIGTERM; returns the exit code."""
    name, *files = sys.argv[1:]
    variant = next(each for each in VARIANTS if each.name == name)
    settings = settings.load()
    if variant.server == "uvicorn":
        made = APP if variant.name == "template" else "benchmarks.asgi.serve:portable"
        secured = dict(zip(("ssl_certfile", "ssl_keyfile"), files, strict=False))
        uvicorn.run(**{**uvicorn_options(settings, made), "http": variant.protocol, **secured})
        return 0
    options: dict[str, Any] = {}
    if files and variant.server == "hypercorn":
        options = dict(zip(("certfile", "keyfile"), files, strict=True))
    elif files:
        options = dict(zip(("ssl_cert", "ssl_key"), map(Path, files), strict=True))
    return others.run(settings.model_copy(update={"asgi_server": variant.server}), app, **options)


if __name__ == "__main__":
    sys.exit(main())
