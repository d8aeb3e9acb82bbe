"""The autoscaler as a process, and a stand-in for the part of Docker's API that it uses."""

import contextlib
import json
import re
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from conftest import ROOT, environment, free_port

LABELS = {"anyreplica.autoscale": "true", "anyreplica.autoscale.min": "1", "anyreplica.autoscale.max": "10"}


class Engine:
    """An engine with some services. A change of a service gives it as many tasks as replicas.

    Args:
        socket: the Unix socket; without it, the engine gets a free port.

    Attributes:
        services: the entries of `GET /services`, by their ids.
        tasks: the entries of `GET /tasks`, by the ids of their services.
        refused: the paths that were refused, because this stand-in does not have them.
        is_away: whether every request gets an error.
    """

    def __init__(self, socket: Path | None = None) -> None:
        self.services: dict[str, dict[str, Any]] = {}
        self.tasks: dict[str, list[dict[str, Any]]] = {}
        self.refused: list[str] = []
        self.is_away = False
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._answer(*engine.get(self.path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(*engine.post(self.path, json.loads(body)))

            def _answer(self, status: int, said: Any) -> None:
                body = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server: socketserver.BaseServer
        if socket:
            self._server, self.url = socketserver.ThreadingUnixStreamServer(str(socket), Handler), f"unix://{socket}"
        else:
            self._server = server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            self.url = f"tcp://127.0.0.1:{server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(
        self, name: str, replicas: int, *, labels: dict[str, str] = LABELS, env: dict[str, str] | None = None
    ) -> None:
        """Add a service whose replicas run. Replica n has the address 127.0.0.n."""
        lines = [f"{key}={value}" for key, value in (env or {}).items()]
        spec = {
            "Name": f"stack_{name}",
            "Labels": {"com.docker.stack.namespace": "stack", **labels},
            "Mode": {"Replicated": {"Replicas": replicas}},
            "TaskTemplate": {
                "ContainerSpec": {"Env": lines, "Image": "image"},
                "Resources": {"Limits": {"NanoCPUs": 500_000_000}},
            },
        }
        self.services[name] = {"ID": name, "Version": {"Index": 7}, "Spec": spec}
        self.run(name)

    def run(self, name: str) -> None:
        """Start or stop tasks until there are as many as replicas."""
        numbers = range(1, self.replicas(name) + 1)
        self.tasks[name] = [task(f"{name}-{number}", f"127.0.0.{number}") for number in numbers]

    def replicas(self, name: str) -> int:
        """Return the desired number of replicas."""
        found: int = self.services[name]["Spec"]["Mode"]["Replicated"]["Replicas"]
        return found

    def set(self, name: str, replicas: int) -> None:
        """Set the number of replicas, as `docker service scale` does."""
        self.services[name]["Spec"]["Mode"]["Replicated"]["Replicas"] = replicas
        self.services[name]["Version"]["Index"] += 1
        self.run(name)

    def get(self, path: str) -> tuple[int, Any]:
        """Answer a GET request."""
        parts = urlsplit(path)
        if self.is_away:
            return 503, {"message": "the engine is away"}
        if parts.path == "/services":
            return 200, list(self.services.values())
        if parts.path == "/tasks":
            filters = json.loads(parse_qs(parts.query)["filters"][0])
            assert filters["desired-state"] == ["running"]
            return 200, self.tasks[filters["service"][0]]
        self.refused.append(path)
        return 403, {"message": "forbidden"}

    def post(self, path: str, spec: dict[str, Any]) -> tuple[int, Any]:
        """Answer a POST request."""
        found = re.fullmatch(r"/services/([^/]+)/update\?version=(\d+)", path)
        if found is None:
            self.refused.append(path)
            return 403, {"message": "forbidden"}
        service = self.services[found[1]]
        if service["Version"]["Index"] != int(found[2]):
            return 500, {"message": "rpc error: code = Unknown desc = update out of sequence"}
        service["Spec"] = spec
        service["Version"]["Index"] += 1
        self.run(found[1])
        return 200, {"Warnings": None}


def task(identity: str, address: str, state: str = "running", error: str = "") -> dict[str, Any]:
    """Return an entry of `GET /tasks`."""
    networks = [
        {"Network": {"Spec": {"Name": "ingress", "Ingress": True}}, "Addresses": ["10.0.0.3/24"]},
        {"Network": {"Spec": {"Name": "stack_default"}}, "Addresses": [f"{address}/24"]},
    ]
    return {"ID": identity, "Status": {"State": state, "Err": error}, "NetworksAttachments": networks}


TOKEN = "a-token-of-the-metrics"


@contextlib.contextmanager
def autoscaling(
    engine: Engine, log: Path, *options: str, token: str = TOKEN
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run the command beside the engine. Yields the process and the URL of its probes and metrics."""
    port = free_port()
    command = [sys.executable, "-m", "anyreplica", "autoscale", "--docker", engine.url, *options]
    settings = environment(MCP_PORT=str(port), MCP_HOST="127.0.0.1", METRICS_TOKEN=token, LOG_FORMAT="text")
    with log.open("wb") as stream:
        process = subprocess.Popen(command, cwd=ROOT, env=settings, stdout=stream, stderr=subprocess.STDOUT)
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
