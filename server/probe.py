"""The container's health check: exit 0 if the replica answers /healthz. Run it as `python -I -S server/probe.py`.

It runs every few seconds, so it starts in milliseconds: without `site`, and with nothing imported that is slow to
import (as pathlib is).
"""

import os
import socket
import sys


def alive(port: int, timeout: float = 8) -> bool:
    """Whether 127.0.0.1:port answers GET /healthz with 200 within `timeout` seconds."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(16).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def port() -> int:
    """The port that the server has from its variable, its secret or by default, as `server.config` reads it."""
    value = os.environ.get("MCP_PORT")
    folder = os.environ.get("SECRETS_DIR") or "/run/secrets"
    for name in () if value or not os.path.isdir(folder) else os.listdir(folder):  # noqa: PTH112, PTH208
        if name.lower() == "mcp_port":
            with open(f"{folder}/{name}") as file:  # noqa: PTH123
                value = file.read().strip()
    return int(value or "8000")


if __name__ == "__main__":
    sys.exit(0 if alive(port()) else 1)
