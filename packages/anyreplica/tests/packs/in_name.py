"""A tool and a job that call an API which wants a token in the caller's name."""

from fastmcp.tools import tool

from anyreplica import downstream, job


@tool
async def who(url: str) -> str:
    """Return the user whom the API sees."""
    return str((await downstream.get(url)).json()["user"])


@job
async def who_later(url: str) -> str:
    """Return the user whom the API sees."""
    return str((await downstream.get(url)).json()["user"])
