"""HAProxy in front of the replicas: a round robin, and a round robin with affinity by session id."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.process import Program, answers, free_port

CHECK_SECONDS = 0.15
"""Seconds between two health checks of a replica. After two failed checks the replica gets no more requests."""

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
    # A request that never reached a replica goes to another one. A request that was sent is not sent again.
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
"""


class Proxy(Program):
    """HAProxy with one port for the round robin (`port`) and one port for affinity."""

    def __init__(self, replicas: Sequence[int], core: int, folder: Path) -> None:
        turns, self.affinity = free_port(), free_port()
        servers = "\n".join(f"    server replica-{number} 127.0.0.1:{port}" for number, port in enumerate(replicas))
        file = folder / f"{turns}.cfg"
        config = _CONFIG.format(check=1000 * CHECK_SECONDS, servers=servers, turns=turns, affinity=self.affinity)
        file.write_text(config)
        super().__init__("haproxy", "-db", "-f", str(file), port=turns, core=core, folder=folder)

    def is_ready(self) -> bool:
        """Return True if a replica answers through each port."""
        return answers(("127.0.0.1", self.port)) and answers(("127.0.0.1", self.affinity))


def version() -> str:
    """Return the version of HAProxy."""
    done = subprocess.run(["haproxy", "-v"], capture_output=True, text=True, check=True)
    return done.stdout.split()[2]
