"""The client of the Redis that replicas share. The URL has the address of Redis, or the addresses of Sentinels.

Sentinels watch a master and its copies, and choose another master when the master is lost. Docket reads the same form
of URL: `redis+sentinel://:password@sentinel-1,sentinel-2:26379/name/0`.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from anyreplica.settings import CoreSettings
from anyreplica.settings.errors import StartupError
from anyreplica.shared.lost_redis import QUICK_SECONDS, notice_losses

if TYPE_CHECKING:
    from redis.asyncio import Redis

_SENTINEL_SCHEMES = ("redis+sentinel://", "rediss+sentinel://")
_SENTINEL_PORT = 26379


def connect(settings: CoreSettings) -> "Redis | None":
    """Return a client for `REDIS_URL`, or None if it is not set. The client connects at its first use.

    Raises:
        StartupError: `REDIS_URL` is not a valid URL.
    """
    return client_of("REDIS_URL", settings.redis_url.get_secret_value()) if settings.redis_url else None


def client_of(variable: str, url: str) -> "Redis":
    """Return a client for a URL. It connects at its first use.

    Raises:
        StartupError: The URL is not valid. The text names the variable.
    """
    make = sentinel_client if url.startswith(_SENTINEL_SCHEMES) else _plain_client
    try:
        client = make(
            url,
            socket_connect_timeout=QUICK_SECONDS,  # of the probe; the pool sets those of commands
            socket_timeout=QUICK_SECONDS,
            driver_info=None,  # telling Redis the name of this client takes one more answer of a slow Redis
        )
        notice_losses(client.connection_pool)
        client.connection_pool.make_connection()  # type: ignore[no-untyped-call]  # only checks the options
    except (ValueError, TypeError):  # the text of the error may contain the password
        text = "not a Redis URL; write it like redis://:password@redis:6379/0 (in the password: %2F for /, %23 for #)"
        if url.startswith(_SENTINEL_SCHEMES):
            text = (
                "not a Sentinel URL; write it like redis+sentinel://:password@sentinel-1,sentinel-2,sentinel-3/name/0"
            )
        raise StartupError(f"{variable}: {text}") from None
    return client


def _plain_client(url: str, **options: Any) -> "Redis":
    # The import takes 60 ms, which a replica without Redis saves.
    from redis.asyncio import Redis  # noqa: PLC0415

    from anyreplica.shared.redis_pool import WaitingPool  # noqa: PLC0415

    client: Redis = Redis.from_pool(WaitingPool.from_url(url, **options))
    return client


def sentinel_client(url: str, **options: Any) -> "Redis":
    """Return a client for the current master. `options` are redis-py's options of a connection.

    Raises:
        ValueError: a Sentinel or the master's name is missing, or a number or an option is not valid.
    """
    from redis.asyncio.connection import parse_url  # noqa: PLC0415
    from redis.asyncio.sentinel import Sentinel  # noqa: PLC0415

    from anyreplica.shared.redis_pool import WaitingSentinelPool  # noqa: PLC0415

    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    login, at, hosts = authority.rpartition("@")
    name, _, database = path.partition("/")
    if not hosts or not name:
        raise ValueError("the address of a Sentinel or the name of the master is missing")
    own = dict(parse_qsl(query))
    sentinel: dict[str, Any] = {
        kind: own.pop(f"sentinel_{kind}") for kind in ("username", "password") if f"sentinel_{kind}" in own
    }
    secure = {"ssl": True} if scheme == "rediss+sentinel" else {}
    found: dict[str, Any] = dict(parse_url(f"redis://{login}{at}redis/{int(database or 0)}?{urlencode(own)}"))
    del found["host"]
    connection = {**options, **secure, **found}
    if secure:  # the Sentinels have certificates of the same authority as the master
        sentinel |= {name: value for name, value in found.items() if name.startswith("ssl_")}
    addresses = [_address(host) for host in hosts.split(",")]
    sentinels = Sentinel(addresses, sentinel_kwargs={**secure, **sentinel})  # type: ignore[no-untyped-call]
    master: Redis = sentinels.master_for(name, connection_pool_class=WaitingSentinelPool, **connection)
    return master


def _address(host: str) -> tuple[str, int]:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, str(_SENTINEL_PORT)
    return name.strip("[]"), int(port)
