"""Settings of signed requests."""

from typing import Literal, Self

from pydantic import Field, model_validator

from anyreplica.settings import CoreSettings
from anyreplica.settings.words import Seconds


class SignatureSettings(CoreSettings):
    """Settings of signed requests (RFC 9421)."""

    signing: Literal["off", "accept", "require"] = "off"
    """Signed requests (RFC 9421). The public keys of the signers are in `API_KEYS_FILE`. `off`: signatures are ignored.
    `accept`: a valid signature authenticates the caller, like a key or a token. `require`: every caller must sign."""
    signing_max_age_seconds: Seconds = Field(60, ge=1, le=3600)
    """Time for which a signature is valid, in seconds."""
    signing_skew_seconds: Seconds = Field(5, ge=0, le=300)
    """Accepted difference between the clocks of the signer and the replica, in seconds."""

    @model_validator(mode="after")
    def _keys_of_signers(self) -> Self:
        if self.signing != "off" and self.api_keys_file is None:
            raise ValueError(
                f"API_KEYS_FILE: required by SIGNING={self.signing}; set it to the file with the public keys"
            )
        return self
