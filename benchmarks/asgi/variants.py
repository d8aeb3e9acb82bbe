"""The ASGI servers that are compared, each as it would be run."""

import importlib.util
from dataclasses import dataclass

APP = "server.server:create_app"
"""What all of them serve."""


@dataclass(frozen=True)
class Variant:
    """One server, speaking one version of HTTP."""

    name: str
    title: str
    server: str
    """The package."""
    protocol: str
    """What uvicorn's `http` is; nothing for the others."""
    http2: bool = False

    @property
    def missing(self) -> str:
        """Why it can't be tried; empty if it can."""
        if importlib.util.find_spec(self.server):
            return ""
        return f"{self.server} is not installed: pip install {self.server}"

    def command(self, port: int, *files: str) -> list[str]:
        """The module and the arguments that run it, by its own command line.

        Args:
            files: of a certificate and its key, for TLS.
        """
        if self.server == "hypercorn":
            secured = [f"--{name}={file}" for name, file in zip(("certfile", "keyfile"), files, strict=False)]
            return ["hypercorn", f"{APP}()", f"--bind=127.0.0.1:{port}", "--worker-class=uvloop", *secured]
        secured = [f"--ssl-{name}={file}" for name, file in zip(("certificate", "keyfile"), files, strict=False)]
        return ["granian", APP, "--factory", "--interface=asgi", f"--port={port}", "--loop=uvloop", *secured]


VARIANTS = (
    Variant("template", "uvicorn as the template runs it", "uvicorn", "mcp_swarm.http.uvicorn.protocol:HttpProtocol"),
    Variant("httptools", "uvicorn, httptools and uvloop", "uvicorn", "httptools"),
    Variant("h11", "uvicorn, h11 and uvloop", "uvicorn", "h11"),
    Variant("hypercorn", "hypercorn, HTTP/1.1", "hypercorn", ""),
    Variant("hypercorn-h2", "hypercorn, HTTP/2", "hypercorn", "", http2=True),
    Variant("granian", "granian, HTTP/1.1", "granian", ""),
    Variant("granian-h2", "granian, HTTP/2", "granian", "", http2=True),
)

SERVERS = ("uvicorn", "hypercorn", "granian")
