"""The identity provider of the tests: npm's `oidc-provider` on 127.0.0.1."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx

from conftest import PACKAGE, free_port, until

_SUITE = PACKAGE / "tests" / "conformance"
_NODE = _SUITE / "node_modules" / "node" / "bin" / "node"


@contextlib.contextmanager
def identity_provider(log: Path, public: str, access_seconds: int = 300, tokens: str = "jwt") -> Iterator[str]:
    """Run an identity provider for the server at the URL `public`, and return the URL of the identity provider.

    Args:
        access_seconds: lifetime of its access tokens.
        tokens: `jwt` or `opaque`. Only the identity provider itself can read an opaque token.
    """
    port = free_port()
    command = [str(_NODE), str(_SUITE / "identity_provider.mjs"), str(port), f"{public}/auth/callback", f"{public}/mcp"]
    with log.open("w") as stream:
        process = subprocess.Popen(
            command,
            env={**os.environ, "IDP_ACCESS_SECONDS": str(access_seconds), "IDP_TOKENS": tokens},
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(lambda: _answers(port), lambda: f"the identity provider answers; it printed:\n{log.read_text()}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{port}/.well-known/openid-configuration").status_code == 200
    return False
