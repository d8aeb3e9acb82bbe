"""The health check of the container. It exits with 0 if the replica answers /healthz. Run `python -I -S probe.py`.

Docker runs it every few seconds, so it must start in milliseconds. For this reason it runs without `site` and imports
no slow modules, such as pathlib.
"""

import os
import socket
import sys


def alive(port: int, uds: str = "") -> bool:
    """Return whether the Unix socket (or 127.0.0.1:port) answers GET /healthz with 200 within 8 s."""
    try:
        with socket.socket(socket.AF_UNIX if uds else socket.AF_INET) as connection:
            connection.settimeout(8)
            connection.connect(uds or ("127.0.0.1", port))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
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
    sys.exit(0 if alive(int(setting("MCP_PORT", "8000")), setting("MCP_UDS", "")) else 1)
