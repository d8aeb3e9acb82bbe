"""Kinds of values that settings have."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""Several, separated by commas."""

Seconds = Annotated[float, Field(allow_inf_nan=False)]
