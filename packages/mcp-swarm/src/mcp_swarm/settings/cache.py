"""Results of tools that are kept."""

from pydantic import Field
from pydantic_settings import BaseSettings


class CacheSettings(BaseSettings):
    """Of the cache."""

    cache_bytes: int = Field(
        32 * 1024 * 1024,
        ge=0,
        description="Memory of a replica for results of tools whose author lets them be kept, in bytes of JSON; with "
        "`REDIS_URL` replicas share them besides.",
    )
