"""The endpoint that the load test sends requests to."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class LoadTarget:
    """The parts of an endpoint's URL."""

    url: str
    host: str
    port: int
    path: str
    """Path and query, as in the request line."""
    tls: ssl.SSLContext | None
    """TLS context for https, otherwise None."""

    @classmethod
    def of(cls, url: str) -> "LoadTarget":
        """Parse a URL.

        Raises:
            ValueError: The text is not an http or https URL with a host.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the URL of a server; write it like http://localhost:8150/mcp")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        return cls(url, parts.hostname, port, path, tls)

    @property
    def authority(self) -> str:
        """Value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    async def resolved(self, seconds: float) -> list[str]:
        """Return the addresses of the host that accept a connection, so that no request waits for a dead address.

        Args:
            seconds: Time limit for one connection, in seconds.

        Raises:
            OSError: No address accepts a connection; this is the error of the first address.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[4][0]) for address in found))
        errors: list[OSError] = []
        good = []
        for address in addresses:
            try:
                async with asyncio.timeout(seconds):
                    _, writer = await asyncio.open_connection(address, self.port)
            except OSError as error:  # TimeoutError is a subclass of OSError.
                errors.append(error)
                continue
            writer.close()
            good.append(address)
        if not good:
            raise errors[0]
        return good
