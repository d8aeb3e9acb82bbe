"""Where the load goes."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class LoadTarget:
    """An endpoint, taken apart once for all connections."""

    url: str
    host: str
    port: int
    path: str
    """With the query, as it stands in a request's first line."""
    tls: ssl.SSLContext | None

    @classmethod
    def of(cls, url: str) -> "LoadTarget":
        """Take a URL apart.

        Raises:
            ValueError: it is none that a request can be sent to; the message says what is missing.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no URL of a server; it looks like http://localhost:8150/mcp")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        return cls(url, parts.hostname, port, path, tls)

    @property
    def authority(self) -> str:
        """What the header Host carries."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    async def resolved(self, seconds: float) -> list[str]:
        """The addresses behind the name that take a connection, so that no call pays for those that don't.

        Raises:
            OSError: none does; the error of the first.
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
            except OSError as error:  # TimeoutError is one
                errors.append(error)
                continue
            writer.close()
            good.append(address)
        if not good:
            raise errors[0]
        return good
