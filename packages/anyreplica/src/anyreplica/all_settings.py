"""All settings: those of the core and those of each built-in feature."""

from anyreplica.features.audit.settings import AuditSettings
from anyreplica.features.cache.settings import CacheSettings
from anyreplica.features.console.settings import ConsoleSettings
from anyreplica.features.downstream.settings import DownstreamSettings
from anyreplica.features.jobs.settings import JobSettings
from anyreplica.features.keys.settings import KeySettings
from anyreplica.features.login.settings import LoginSettings
from anyreplica.features.metrics.settings import MetricsSettings
from anyreplica.features.ratelimit.settings import RateLimitSettings
from anyreplica.features.server_card.settings import ServerCardSettings
from anyreplica.features.sessions.settings import SessionSettings
from anyreplica.features.signatures.settings import SignatureSettings
from anyreplica.features.tracing.settings import TracingSettings


class Settings(
    TracingSettings,
    RateLimitSettings,
    LoginSettings,
    SignatureSettings,
    KeySettings,
    DownstreamSettings,
    AuditSettings,
    CacheSettings,
    JobSettings,
    SessionSettings,
    ServerCardSettings,
    ConsoleSettings,
    MetricsSettings,
):
    """The settings of the server. The name of a variable or secret file is the name of the field in capitals.

    To add your own settings, define a subclass.

    Example:

        from pydantic import Field, SecretStr

        import anyreplica

        class Settings(anyreplica.Settings):
            weather_key: SecretStr = Field(description="Key of the weather API.")

        key = Settings.load().weather_key.get_secret_value()
    """
