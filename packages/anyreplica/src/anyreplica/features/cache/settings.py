"""Settings of the cache for the results of tools."""

from pydantic import Field

from anyreplica.settings import CoreSettings


class CacheSettings(CoreSettings):
    """Settings of cached results."""

    cache_bytes: int = Field(32 * 1024 * 1024, ge=0)
    """Maximum memory of a replica for the results of cached tools, in bytes of JSON. With `REDIS_URL`, replicas also
    share these results in Redis."""
