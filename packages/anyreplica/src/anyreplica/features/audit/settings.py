"""Settings of the audit log."""

from typing import Literal

from pydantic import SecretStr

from anyreplica.settings import CoreSettings
from anyreplica.settings.words import WordList


class AuditSettings(CoreSettings):
    """Settings of the audit log."""

    audit_log: str = ""
    """Destination of the audit log, which has one entry per call: `stdout`, or the path of a file that only this
    replica writes. Empty: disabled."""
    audit_on_failure: Literal["drop", "refuse"] = "drop"
    """Behavior when the replica cannot write the audit log. `drop`: entries are lost, and the log says how many.
    `refuse`: calls get HTTP 503."""
    audit_arguments: WordList = ()
    """Arguments that the audit log shows, as patterns of `tool.argument`, comma-separated. Of every other argument,
    the audit log has only a digest."""
    audit_key: SecretStr | None = None
    """Secret key of the digests and of the hash chain in the audit log, with at least 32 characters. Without the key,
    nobody can write entries that pass the verification. Empty: the digests and the chain use no key."""
