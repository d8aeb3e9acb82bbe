"""The base class and the types of all groups of settings, and the keys that replicas derive from a secret."""

import hmac
from collections.abc import Iterable
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


def derived(keys: Iterable[str], purpose: str) -> list[bytes]:
    """Return a key of 32 bytes for each key, in the same order.

    What a key of one purpose has encrypted or signed is not valid for another purpose.
    """
    return [hmac.digest(key.encode(), f"anyreplica {purpose}".encode(), "sha256") for key in keys]


class SettingsGroup(BaseSettings):
    """A group of settings. The string below each field is its description in `docs/reference/settings.md`."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True, defer_build=True)


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


WordList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""A list of words, separated by commas."""

Seconds = Annotated[float, Field(allow_inf_nan=False)]
