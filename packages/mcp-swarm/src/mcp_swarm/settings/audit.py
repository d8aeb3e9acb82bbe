"""What is written down of calls."""

from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings

from mcp_swarm.settings.words import Words


class AuditSettings(BaseSettings):
    """Of the audit log."""

    audit_log: str = Field(
        "", description="Where a line of each call goes: `stdout`, or a file of this replica's own. Empty: nowhere."
    )
    audit_on_failure: Literal["drop", "refuse"] = Field(
        "drop",
        description="When the audit log can't be written: lose lines and say how many, or refuse calls with 503.",
    )
    audit_arguments: Words = Field(
        (),
        description="Arguments that are shown in it, as patterns of `tool.argument`; of all others there is a digest.",
    )
    audit_key: SecretStr | None = Field(
        None, description="Key of digests and chain, so that who can write the log can't make a chain that holds."
    )
