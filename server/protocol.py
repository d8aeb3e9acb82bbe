"""HTTP/1.1 as uvicorn speaks it, with this server's manners where no ASGI app is reached."""

import functools
import secrets

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from server import config
from server.replica import name_of


@functools.cache
def _replica() -> str:
    return name_of(config.load())


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol, whose answer to what isn't HTTP has the headers of every other response."""

    def send_400_response(self, msg: str) -> None:
        """Say 400 and close the connection; uvicorn has logged a warning."""
        body = f"{msg}\n".encode()
        head = (
            "HTTP/1.1 400 Bad Request",
            f"x-served-by: {_replica()}",
            f"x-request-id: {secrets.token_hex(4)}",
            "content-type: text/plain; charset=utf-8",
            f"content-length: {len(body)}",
            "connection: close",
        )
        self.transport.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
        self.transport.close()
