"""The server, put together from one module for each feature."""

import os
from datetime import timedelta
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server import create_proxy
from fastmcp.server.providers import FileSystemProvider
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp_tasks import TasksExtension
from mcp_types import Icon

from tests.fastmcp_server.served import (
    apps,
    catalogue,
    dependencies,
    library,
    lifespans,
    notices,
    routes,
    state,
    tasks,
    transforms,
    weather_api,
)
from tests.fastmcp_server.served.middleware import Stamp

HERE = Path(__file__).parent

mcp = FastMCP(
    "everything",
    "Everything that FastMCP offers.",
    version="1.2.3",
    website_url="https://example.com/everything",
    icons=[Icon(src="https://example.com/everything.png")],
    cache_ttl=60,
    cache_scope="public",
    lifespan=lifespans.settings | lifespans.database,
    middleware=[Stamp("root")],
    providers=[FileSystemProvider(HERE / "found"), SkillsDirectoryProvider(HERE / "skills")],
)
for child, namespace in (
    (catalogue.mcp, "catalogue"),
    (library.mcp, "library"),
    (lifespans.mcp, "opened"),
    (dependencies.mcp, "injected"),
    (state.mcp, "kept"),
    (notices.mcp, "told"),
    (tasks.mcp, "later"),
    (routes.mcp, "routes"),
    (weather_api.mcp, "weather"),
    (transforms.renamed, "renamed"),
    (transforms.searched, "searched"),
    (transforms.listed, "listed"),
    (transforms.old, "old"),
    (transforms.partly, "partly"),
):
    mcp.mount(child, namespace=namespace)
mcp.mount(apps.mcp)
if upstream := os.environ.get("UPSTREAM_URL"):
    mcp.mount(create_proxy(upstream, name="upstream"), namespace="proxied")
mcp.add_extension(TasksExtension(concurrency=3, minimum_check_interval=timedelta(milliseconds=50)))


@mcp.tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


lifespans.add_to(mcp)
state.add_to(mcp)
