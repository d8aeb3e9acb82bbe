"""The Redis that replicas share, if there is one: at an address of its own, or found through Sentinel.

Sentinels watch a master and its copies, and choose another master when it is lost. Docket reads the same form of URL,
`redis+sentinel://:password@sentinel-1,sentinel-2:26379/name/0`.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError
from mcp_swarm.shared.lost_redis import notice_losses

if TYPE_CHECKING:
    from redis.asyncio import Redis

_CONNECT_SECONDS = 1.0
_ANSWER_SECONDS = 1.0
"""A Redis that hangs holds up what waits for it; one that is well answers in a thousandth of this."""
_SENTINEL_SCHEMES = ("redis+sentinel://", "rediss+sentinel://")
_SENTINEL_PORT = 26379


def connect(settings: Settings) -> "Redis | None":
    """A client of `REDIS_URL`, which connects when it is first used; None without one.

    Raises:
        StartupError: the URL is none; nor is JOBS_URL.
    """
    if not settings.jobs_in_process:
        _client("JOBS_URL", settings.jobs_url.get_secret_value())
    return _client("REDIS_URL", settings.redis_url.get_secret_value()) if settings.redis_url else None


def _client(variable: str, url: str) -> "Redis":
    from redis.asyncio import Redis  # noqa: PLC0415  # 60 ms that a replica without Redis saves

    make = sentinel_client if url.startswith(_SENTINEL_SCHEMES) else Redis.from_url
    try:
        client: Redis = make(
            url,
            socket_connect_timeout=_CONNECT_SECONDS,
            socket_timeout=_ANSWER_SECONDS,
            health_check_interval=30,
        )
        notice_losses(client.connection_pool)
        client.connection_pool.make_connection()  # type: ignore[no-untyped-call]  # looks at the options, no more
    except (ValueError, TypeError):  # whose text may hold the password
        text = "no URL of a Redis, like redis://:password@redis:6379/0 (in the password / is %2F and # is %23)"
        if url.startswith(_SENTINEL_SCHEMES):
            text = "no URL of Sentinels, like redis+sentinel://:password@sentinel-1,sentinel-2,sentinel-3/name/0"
        raise StartupError(f"{variable}: {text}") from None
    return client


def sentinel_client(url: str, **options: Any) -> "Redis":
    """A client of whichever Redis is the master; `options` are of each connection, as redis-py names them.

    Raises:
        ValueError: no Sentinel, no name, or a wrong number or option.
    """
    from redis.asyncio.connection import parse_url  # noqa: PLC0415
    from redis.asyncio.sentinel import Sentinel  # noqa: PLC0415

    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    login, at, hosts = authority.rpartition("@")
    name, _, database = path.partition("/")
    if not hosts or not name:
        raise ValueError("a Sentinel's address or the name of what it watches is missing")
    own = dict(parse_qsl(query))
    sentinel: dict[str, Any] = {
        kind: own.pop(f"sentinel_{kind}") for kind in ("username", "password") if f"sentinel_{kind}" in own
    }
    secure = {"ssl": True} if scheme == "rediss+sentinel" else {}
    found: dict[str, Any] = dict(parse_url(f"redis://{login}{at}redis/{int(database or 0)}?{urlencode(own)}"))
    del found["host"]
    connection = {**options, **secure, **found}
    if secure:  # the Sentinels have certificates of the same authority
        sentinel |= {name: value for name, value in found.items() if name.startswith("ssl_")}
    addresses = [_address(host) for host in hosts.split(",")]
    sentinels = Sentinel(addresses, sentinel_kwargs={**secure, **sentinel})  # type: ignore[no-untyped-call]
    master: Redis = sentinels.master_for(name, **connection)
    return master


def _address(host: str) -> tuple[str, int]:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, str(_SENTINEL_PORT)
    return name.strip("[]"), int(port)
