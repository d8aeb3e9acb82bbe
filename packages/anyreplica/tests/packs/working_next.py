"""A next version of `tests.packs.working`: it has one new job and none of the old jobs."""

from anyreplica import job


@job
async def brand_new() -> str:
    """Run a job that exists only in the next version."""
    return "new"
