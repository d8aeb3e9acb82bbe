"""Tests of lifespans, dependencies and custom routes, on any replica."""

import httpx
import pytest

from tests.fastmcp_server.clients import FAMILIES, conversation, prompted, read, said
from tests.replicas import Family, Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis")]


@pytest.mark.parametrize("family", FAMILIES)
async def test_lifespans_and_dependencies(brought: Fleet, family: Family) -> None:
    """Lifespans, of a mounted server, too, and dependencies are open in tools, resources and prompts."""
    async with conversation(brought, family) as client:
        assert await said(client, "opened") == {"settings": "read", "database": "open"}
        assert await said(client, "opened_printing") == {"printer": "open for printing"}
        for _ in range(2):
            assert await said(client, "injected_shared") == "pool 1 of acme"
        assert await said(client, "injected_depends", number=7) == "7: connection of acme, closed []"
        assert await said(client, "injected_with_context") == f"dependencies, dependencies, {family}"
        assert await read(client, "tenant://injected/acme") == "acme: True"
        assert await prompted(client, "injected_introduce") == "We are acme."


def test_custom_routes(brought: Fleet) -> None:
    """A custom route of a mounted server answers on every replica. It has nothing to do with the protocol."""
    for replica in brought.replicas:
        reply = httpx.post(f"{replica.url}/webhook/order", json={"id": 1})
        assert (reply.status_code, reply.json()) == (200, {"name": "order", "body": {"id": 1}})
        assert httpx.get(f"{replica.url}/webhook/order").status_code == 405
