"""Settings of the metrics."""

from pydantic import SecretStr

from anyreplica.settings import CoreSettings


class MetricsSettings(CoreSettings):
    """Settings of the metrics for Prometheus and the autoscaler."""

    metrics_token: SecretStr | None = None
    """Token that Prometheus must send to `/metrics`, as `Authorization: Bearer`. Empty: everybody may read the metrics,
    or, with `AUTH_ENABLED`, every authenticated caller."""
