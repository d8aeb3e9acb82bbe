"""The container's health check: exit 0 if the replica answers /healthz. Run it as `python -I -S probe.py`.

It runs every few seconds, so it starts in milliseconds: without `site`, and with nothing imported that is slow to
import (as pathlib is).
"""

import os
import socket
import sys


def alive(port: int, uds: str = "") -> bool:
    """Whether the Unix socket, or 127.0.0.1:port, answers GET /healthz with 200 within 8 seconds."""
    try:
        with socket.socket(socket.AF_UNIX if uds else socket.AF_INET) as connection:
            connection.settimeout(8)
            connection.connect(uds or ("127.0.0.1", port))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(16).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def setting(variable: str, default: str) -> str:
    """A setting's value from its variable, its secret or by default, as `mcp_swarm.settings` reads it."""
    value = os.environ.get(variable)
    folder = os.environ.get("SECRETS_DIR") or "/run/secrets"
    for name in () if value or not os.path.isdir(folder) else os.listdir(folder):  # noqa: PTH112, PTH208
        if name.upper() == variable:
            with open(f"{folder}/{name}") as file:  # noqa: PTH123
                value = file.read().strip()
    return value or default


if __name__ == "__main__":
    sys.exit(0 if alive(int(setting("MCP_PORT", "8000")), setting("MCP_UDS", "")) else 1)
