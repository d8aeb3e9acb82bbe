"""What the groups of settings are made of."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class SettingsGroup(BaseSettings):
    """Settings of one subject. The string below each is its meaning in README's table."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


WordList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""Several, separated by commas."""

Seconds = Annotated[float, Field(allow_inf_nan=False)]
