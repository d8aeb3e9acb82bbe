"""A small authorization server at which every user is logged in already: for tests that need no real one."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.auth.issuer import Issuer


@contextmanager
def upstream(issuer: Issuer) -> Iterator[str]:
    """Serve the authorization server, which gives the tokens of an issuer to anybody, and yield its URL."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            answer = urlencode({"code": "a-code", "state": query["state"][0]})
            self.send_response(302)
            self.send_header("Location", f"{query['redirect_uri'][0]}?{answer}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            tokens = {"access_token": issuer.token(), "token_type": "Bearer", "expires_in": 300, "refresh_token": "r"}
            body = json.dumps(tokens).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
