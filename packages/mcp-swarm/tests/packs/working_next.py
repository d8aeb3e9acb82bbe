"""As the next version of `tests.packs.working` might be: one job more, and all of the others gone."""

from mcp_swarm import job


@job
async def brand_new() -> str:
    """Do what only the next version does."""
    return "new"
