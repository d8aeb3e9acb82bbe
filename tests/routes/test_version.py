"""`GET /version`."""

import httpx

from tests.mcp import get


def test_version(local_url: str) -> None:
    """What runs, and who answers."""
    reply = httpx.get(f"{local_url}/version")
    assert reply.json() == {
        "name": "template-mcp",
        "version": "0.1.0",
        "hostname": reply.headers["X-Served-By"],
        "status": "ready",
        "protocol_versions": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"],
    }


def test_new_connections_reach_every_replica(local_url: str) -> None:
    """What README's curl loop shows."""
    assert len({get(f"{local_url}/version").json()["hostname"] for _ in range(60)}) == 3
