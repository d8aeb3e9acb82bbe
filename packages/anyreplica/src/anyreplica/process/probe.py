"""The health check of the container. It exits with 0 if the replica is alive. Run `python -I -S probe.py`.

Docker runs it every few seconds, so it must start in milliseconds. For this reason it runs without `site` and imports
no slow modules, such as pathlib.
"""

import os
import socket
import sys

LOOPBACK = ("127.0.0.1", "::1")


def alive(port: int, uds: str = "", path: str = "/healthz", hosts: "tuple[str, ...]" = LOOPBACK) -> bool:
    """Return whether the Unix socket, or the port at one of the hosts, answers GET `path` with 200 within 8 s."""
    if uds:
        return _answers(socket.AF_UNIX, uds, path)
    families = {host: socket.AF_INET6 if ":" in host else socket.AF_INET for host in hosts}
    return any(_answers(family, (host, port), path) for host, family in families.items())


def _answers(family: socket.AddressFamily, address: "str | tuple[str, int]", path: str) -> bool:
    try:
        with socket.socket(family) as connection:
            connection.settimeout(8)
            connection.connect(address)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return connection.recv(16).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def setting(variable: str, default: str) -> str:
    """Return the value of a setting: its variable, its secret or its default, as in `anyreplica.settings`."""
    value = os.environ.get(variable)
    folder = os.environ.get("SECRETS_DIR") or "/run/secrets"
    for name in () if value or not os.path.isdir(folder) else os.listdir(folder):  # noqa: PTH112, PTH208
        if name.upper() == variable:
            with open(f"{folder}/{name}") as file:  # noqa: PTH123
                value = file.read().strip()
    return value or default


if __name__ == "__main__":
    own, liveness = setting("MCP_HOST", "::"), setting("LIVENESS_PATH", "/healthz").rstrip("/")
    hosts = LOOPBACK if own in ("::", "0.0.0.0") else (own,)  # noqa: S104  # nothing is bound here
    sys.exit(0 if alive(int(setting("MCP_PORT", "8150")), setting("MCP_UDS", ""), liveness, hosts) else 1)
