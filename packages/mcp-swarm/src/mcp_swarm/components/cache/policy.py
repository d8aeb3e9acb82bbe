"""What a tool's author says about the results that may be kept."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

META = "cache"
"""Key of a tool's `meta` under which it stands."""


class Policy(BaseModel):
    """How long a result is good, and for whom."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    ttl: float = Field(gt=0, le=7 * 24 * 3600, allow_inf_nan=False)
    """Seconds for which a result is as good as a new one."""
    scope: Literal["caller", "public"] = "caller"
    """Whether a result is for the caller who asked first, or for everybody."""
    stale: float = Field(0, ge=0, le=7 * 24 * 3600, allow_inf_nan=False)
    """Seconds after that, in which it is given once more while a new one is made (RFC 5861, section 3)."""


def cached(ttl: float, *, scope: Literal["caller", "public"] = "caller", stale: float = 0) -> dict[str, Any]:
    """The `meta` of a tool whose results are kept: `@tool(meta=cached(60, scope="public"))`.

    Args:
        ttl: seconds for which a result is as good as a new one.
        scope: whether a result is for the caller who asked first, or for everybody.
        stale: seconds after that, in which it is given once more while a new one is made (RFC 5861, section 3).

    Raises:
        pydantic.ValidationError: a value is out of range.
    """
    return {META: Policy(ttl=ttl, scope=scope, stale=stale).model_dump()}


def policy_of(meta: Any) -> Policy | None:
    """The policy in a tool's `meta`, if there is one.

    Raises:
        ValueError: it isn't one.
    """
    if not isinstance(meta, dict) or META not in meta:
        return None
    try:
        return Policy.model_validate(meta[META])
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, (META, *problem["loc"])))
        raise ValueError(
            f'{where}: {problem["msg"]}; it is like {{"ttl": 60, "scope": "public", "stale": 30}}'
        ) from None
