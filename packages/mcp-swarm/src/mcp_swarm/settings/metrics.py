"""What a replica tells of itself."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class MetricsSettings(BaseSettings):
    """Of `/metrics`."""

    metrics_token: SecretStr | None = Field(
        None,
        description="What Prometheus shows as `Authorization: Bearer` at `/metrics`. Empty: anybody may look, or, with "
        "`AUTH_ENABLED`, every caller.",
    )
