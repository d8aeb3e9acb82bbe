"""HAProxy in front of the replicas: each request to the next of them, or each session to the one that opened it."""

import csv
import http.client
import io
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.process import ProcessError, Program, free_port

CHECK_SECONDS = 0.15
"""Time between two questions to a replica whether it is ready; two noes in a row, and it gets no requests."""

_PATIENCE = 30.0

_CONFIG = """\
global
    nbthread 1
    maxconn 1000

defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    timeout check 3s
    # What never reached a replica goes to another, whatever it was; what was sent is not sent again.
    retries 3
    option redispatch 1
    option httpchk
    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host localhost
    http-check expect status 200
    default-server check inter {check:.0f}ms fall 2 rise 1 observe layer4 error-limit 2 on-error mark-down

frontend turns
    bind 127.0.0.1:{turns}
    default_backend turns

backend turns
    balance roundrobin
{servers}

frontend affinity
    bind 127.0.0.1:{affinity}
    default_backend affinity

backend affinity
    balance roundrobin
    stick-table type string len 64 size 100k expire 1h
    stick store-response res.hdr(mcp-session-id)
    stick match req.hdr(mcp-session-id)
{servers}

listen stats
    bind 127.0.0.1:{stats}
    stats enable
    stats uri /
"""


class Proxy(Program):
    """It, with a door for each way to choose a replica.

    Args:
        replicas: their ports.
        core, folder: as for `Program`.
    """

    def __init__(self, replicas: Sequence[int], core: int, folder: Path) -> None:
        turns, self.affinity, self._stats = free_port(), free_port(), free_port()
        servers = "\n".join(f"    server replica-{number} 127.0.0.1:{port}" for number, port in enumerate(replicas))
        ports = {"turns": turns, "affinity": self.affinity, "stats": self._stats}
        file = folder / f"{turns}.cfg"
        file.write_text(_CONFIG.format(check=1000 * CHECK_SECONDS, servers=servers, **ports))
        super().__init__("haproxy", "-db", "-f", str(file), port=turns, core=core, folder=folder)

    def is_ready(self) -> bool:
        """Whether it runs, and a replica answers through each door."""
        return all(_get(port, "/readyz")[0] == 200 for port in (self.port, self.affinity))

    def wait_all_up(self) -> None:
        """Wait until all replicas get requests.

        Raises:
            ProcessError: they don't within half a minute.
        """
        late = time.perf_counter() + _PATIENCE
        while not self._all_up():
            if time.perf_counter() > late:
                raise ProcessError(f"the proxy does not see all replicas within {_PATIENCE:g} s")
            time.sleep(CHECK_SECONDS / 4)

    def _all_up(self) -> bool:
        status, text = _get(self._stats, "/;csv")
        lines = csv.DictReader(io.StringIO(text.removeprefix("# ")))
        servers = [line["status"] for line in lines if line["svname"].startswith("replica-")] if status == 200 else []
        return bool(servers) and all(server == "UP" for server in servers)


def _get(port: int, path: str) -> tuple[int, str]:
    """Status and text; 0 if there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


def version() -> str:
    """HAProxy's own."""
    done = subprocess.run(["haproxy", "-v"], capture_output=True, text=True, check=True)
    return done.stdout.split()[2]
