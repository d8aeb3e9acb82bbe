"""A job that ends at once, whatever number it gets."""

from typing import Annotated, Literal

from pydantic import Field

from anyreplica import job


@job(retention=1)
async def counted(rows: Annotated[int, Field(ge=1)], form: Literal["short", "long"] = "short") -> str:
    """Return the number of rows modulo 1000."""
    return f"{rows % 1000}" if form == "short" else f"{rows % 1000} rows"
