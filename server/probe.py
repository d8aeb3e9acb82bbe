"""The container's health check: exit 0 if the replica answers /healthz. Run it as `python -I -S server/probe.py`.

Without `site` and with nothing imported but `socket` it starts in a few milliseconds; it runs every few seconds.
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


if __name__ == "__main__":
    sys.exit(0 if alive(int(os.environ.get("MCP_PORT") or "8000")) else 1)
