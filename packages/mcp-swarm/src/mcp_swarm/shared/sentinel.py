"""A Redis that is found through Sentinel: `redis+sentinel://:password@sentinel-1,sentinel-2:26379/name/0`.

Sentinels watch a master and its copies, and choose another master when it is lost. Docket reads the same form of URL.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

if TYPE_CHECKING:
    from redis.asyncio import Redis

SCHEMES = ("redis+sentinel://", "rediss+sentinel://")

_PORT = 26379


def client(url: str, **options: Any) -> "Redis":
    """A client of whichever Redis is the master.

    Args:
        options: of each connection, as redis-py names them.

    Raises:
        ValueError: no Sentinel, no name, or a wrong number or option.
    """
    from redis.asyncio.connection import parse_url  # noqa: PLC0415  # as in mcp_swarm.shared.redis
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
        name, port = host, str(_PORT)
    return name.strip("[]"), int(port)
