"""An HTTP server of a test, in a thread, on a free port of 127.0.0.1."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol


@dataclass
class Reply:
    """What the server sends. A body in parts is sent part by part, until the client goes away."""

    status: int = 200
    body: bytes | Iterable[bytes] = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)


class Answering(Protocol):
    """The part of a server that answers requests."""

    def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Answer a request. The names of the headers are in lower case."""


@contextmanager
def served(answering: Answering) -> Iterator[str]:
    """Serve until the context ends. Yield the host with its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = answering.answer(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if isinstance(reply.body, bytes):
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            try:
                for part in [reply.body] if isinstance(reply.body, bytes) else reply.body:
                    self.wfile.write(part)
            except OSError:
                pass  # the client is gone

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 100

    server = Server(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
