"""A fake Docker engine: `python -m tests.examples.devops.engine unix:PATH|tcp:PORT FOLDER`.

It answers `GET /services` and `GET /tasks` as Docker's reference of the Engine API says, with data from
`FOLDER/swarm.json`. If the file `FOLDER/raw` exists, the engine sends this file unchanged instead. It writes one line
per request to `FOLDER/asked`.
"""

import json
import socketserver
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

FOLDER = Path(sys.argv[-1])


class Handler(BaseHTTPRequestHandler):
    """A connection to the engine."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a GET request; any other method gets 501."""
        with (FOLDER / "asked").open("a") as asked:
            asked.write(f"{self.command} {self.path}\n")
        if (FOLDER / "raw").exists():
            self.wfile.write((FOLDER / "raw").read_bytes())
            self.close_connection = True
            return
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        found = _found(url.path, json.loads(query.get("filters", "{}")), status=query.get("status") == "true")
        status, body = (404, {"message": "page not found"}) if found is None else (200, found)
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def address_string(self) -> str:
        """Return a constant, because the client of a socket has no address."""
        return "-"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""


def _found(path: str, filters: dict[str, list[str]], *, status: bool) -> list[Any] | None:
    swarm = json.loads((FOLDER / "swarm.json").read_text())
    if path == "/v1.44/services":
        names = filters.get("name", [""])
        services = [each for each in swarm["services"] if each["Spec"]["Name"].startswith(tuple(names))]
        hidden = set() if status else {"ServiceStatus"}
        return [{key: value for key, value in each.items() if key not in hidden} for each in services]
    if path == "/v1.44/tasks":
        return [each for each in swarm["tasks"] if each["ServiceID"] in filters.get("service", [each["ServiceID"]])]
    return None


def main() -> None:
    """Serve until the process ends."""
    kind, _, place = sys.argv[1].partition(":")
    server: socketserver.BaseServer
    if kind == "unix":
        server = socketserver.ThreadingUnixStreamServer(place, Handler)
    else:
        server = socketserver.ThreadingTCPServer(("127.0.0.1", int(place)), Handler)
    server.serve_forever()


if __name__ == "__main__":
    main()
