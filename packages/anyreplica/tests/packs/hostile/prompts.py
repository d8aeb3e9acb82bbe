"""Prompts and resources that misbehave."""

from fastmcp.prompts import prompt
from fastmcp.resources import resource


@prompt
async def fails() -> str:
    """Fail with a secret in the message."""
    raise ValueError("the password is hunter2")


@resource("hostile://fails")
async def fails_too() -> str:
    """Fail with a secret in the message."""
    raise ValueError("the password is hunter2")


@resource("hostile://exits/{code}")
def leaves(code: str) -> str:
    """Exit the process from a thread."""
    raise SystemExit(code)


@resource("hostile://surrogate")
async def unwritable() -> str:
    """Return text that UTF-8 cannot encode."""
    return "\ud800"
