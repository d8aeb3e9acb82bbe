"""How a tool's author lets its results be cached."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

META = "cache"
"""Key of a tool's `meta` under which it stands."""


class CachePolicy(BaseModel):
    """How long a result is good, and for whom; see `cached`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    ttl: float = Field(gt=0, le=7 * 24 * 3600, allow_inf_nan=False)
    scope: Literal["caller", "public"] = "caller"
    stale: float = Field(0, ge=0, le=7 * 24 * 3600, allow_inf_nan=False)


def cached(ttl: float, *, scope: Literal["caller", "public"] = "caller", stale: float = 0) -> dict[str, Any]:
    """The `meta` of a tool whose results are cached.

    Args:
        ttl: seconds for which a result is fresh.
        scope: "caller": each caller gets results of its own calls only. "public": all callers share results.
        stale: seconds after `ttl` in which callers still get the old result while a new one is made in the background
            (RFC 5861, section 3).

    Raises:
        pydantic.ValidationError: a value is out of range.

    Example:

        from fastmcp.tools import tool

        from mcp_swarm import cached

        @tool(meta=cached(60, scope="public"))
        async def exchange_rate(currency: str) -> float:
            return 1.1
    """
    return {META: CachePolicy(ttl=ttl, scope=scope, stale=stale).model_dump()}


def policy_of(meta: Any) -> CachePolicy | None:
    """The policy in a tool's `meta`, if there is one; raises ValueError if what stands there isn't one."""
    if not isinstance(meta, dict) or META not in meta:
        return None
    try:
        return CachePolicy.model_validate(meta[META])
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, (META, *problem["loc"])))
        raise ValueError(
            f'{where}: {problem["msg"]}; it is like {{"ttl": 60, "scope": "public", "stale": 30}}'
        ) from None
