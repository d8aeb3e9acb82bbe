"""The cache policy of a tool, which the tool author writes into the tool's `meta`."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

META = "cache"
"""Key of the cache policy in a tool's `meta`."""


class CachePolicy(BaseModel):
    """How long a tool's results are used, and for which callers. See `cached` for the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    ttl: float = Field(gt=0, le=7 * 24 * 3600, allow_inf_nan=False)
    scope: Literal["caller", "public"] = "caller"
    stale: float = Field(0, ge=0, le=7 * 24 * 3600, allow_inf_nan=False)


def cached(ttl: float, *, scope: Literal["caller", "public"] = "caller", stale: float = 0) -> dict[str, Any]:
    """Return the `meta` of a cached tool.

    Args:
        ttl: seconds for which a result is fresh. More than 0, at most 604800 (7 days).
        scope: "caller": each caller gets results of its own calls only. "public": all callers share the results.
        stale: seconds after `ttl` in which callers still get the old result while the tool runs in the background
            for a new one (RFC 5861, section 3). At most 604800 (7 days).

    Raises:
        pydantic.ValidationError: a value is out of range.

    Example:

        from fastmcp.tools import tool

        from anyreplica import cached

        @tool(meta=cached(60, scope="public"))
        async def exchange_rate(currency: str) -> float:
            return 1.1
    """
    return {META: CachePolicy(ttl=ttl, scope=scope, stale=stale).model_dump()}


def policy_of(meta: Any) -> CachePolicy | None:
    """Return the cache policy in a tool's `meta`, or None; raise ValueError if the policy is invalid."""
    if not isinstance(meta, dict) or META not in meta:
        return None
    try:
        return CachePolicy.model_validate(meta[META])
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, (META, *problem["loc"])))
        raise ValueError(
            f'{where}: {problem["msg"]}; write it like {{"ttl": 60, "scope": "public", "stale": 30}}'
        ) from None
