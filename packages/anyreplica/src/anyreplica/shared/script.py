"""Scripts in Lua as typed Python classes. Redis runs a script as a whole, without other commands in between."""

import hashlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar, cast, dataclass_transform, get_origin

from anyreplica.shared.lost_redis import translate_redis_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

Result = TypeVar("Result")

Key = Annotated[str, "key"]
"""The type of a field that has the name of a key."""

Keys = Annotated[list[str], "keys"]
"""The type of a field that has the names of any number of keys. The script finds them in `KEYS`, after the others."""


@dataclass_transform()
class Script(Generic[Result]):
    """A script. A subclass has a field for each key and for each argument, and the text of the script in `lua`.

    In the text, each field is a local variable with the name of the field. Integers, floats and booleans are numbers
    there, and True is 1. A list has no variable: its values are the last ones of `ARGV`, or of `KEYS` if its type is
    `Keys`.

    A subclass is a dataclass. The fields and the text of its base class come before its own. `Result` is the type that
    redis-py returns.
    """

    lua: ClassVar[str] = ""
    _text: ClassVar[str]
    _hash: ClassVar[str]
    _fields: ClassVar[list[tuple[str, bool]]]
    """The name of each field, and whether it has keys."""

    def __init_subclass__(cls) -> None:
        dataclass(cls)
        cls._fields = [(field.name, field.type in (Key, Keys)) for field in fields(cast("Any", cls))]
        texts = [base.__dict__.get("lua", "") for base in reversed(cls.__mro__)]
        cls._text = "".join([_declarations(cls), *texts])
        cls._hash = hashlib.sha1(cls._text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, redis: "Redis") -> Result:
        """Run the script with the values of the fields, and return its result.

        Redis caches the text of a script, so only its hash is sent. After a restart of Redis, the text is sent again.

        Raises:
            OSError: Redis cannot be reached, or the script has failed.
        """
        from redis.exceptions import NoScriptError  # noqa: PLC0415  # as in anyreplica.shared.redis

        keys: list[Any] = []
        arguments: list[Any] = []
        for name, is_key in self._fields:
            value = getattr(self, name)
            (keys if is_key else arguments).extend(value if isinstance(value, list) else [_encodable(value)])
        with translate_redis_errors():
            try:
                result: Any = await redis.evalsha(self._hash, len(keys), *keys, *arguments)
            except NoScriptError:
                result = await redis.eval(self._text, len(keys), *keys, *arguments)
        return cast("Result", result)


def _declarations(script: type[Script[Any]]) -> str:
    """Return the lines of Lua that declare a variable for each field."""
    lines = []
    counts = {"KEYS": 0, "ARGV": 0}
    for field in fields(cast("Any", script)):
        if field.type == Keys or get_origin(field.type) is list:
            continue
        source = "KEYS" if field.type == Key else "ARGV"
        counts[source] += 1
        value = f"{source}[{counts[source]}]"
        lines.append(f"local {field.name} = {f'tonumber({value})' if field.type in (int, float, bool) else value}\n")
    return "".join(lines)


def _encodable(value: Any) -> Any:
    """Return a value as redis-py accepts it: it refuses booleans."""
    return int(value) if isinstance(value, bool) else value
