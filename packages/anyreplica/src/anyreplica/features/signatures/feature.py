"""The feature *signatures*: callers that sign their requests (RFC 9421)."""

from fastmcp import FastMCP

from anyreplica.auth.authentication import login_name
from anyreplica.components.discovery import Discovered
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.signatures.settings import SignatureSettings
from anyreplica.settings.errors import StartupError, require_extra


class SignatureCheck(Feature):
    """Checks the signature of a request with the caller's public key, if SIGNING asks for it."""

    settings: SignatureSettings

    def check(self) -> None:
        if self.settings.auth_enabled and self.settings.signing != "off":
            require_extra("signatures", f"SIGNING={self.settings.signing}")

    def check_server(self, mcp: FastMCP, components: Discovered, replicas: int) -> None:
        if (
            self.settings.auth_enabled
            and self.settings.signing == "require"
            and (login := login_name(mcp, self.settings))
        ):
            raise StartupError(f"SIGNING=require: nobody could log in, because the login ({login}) sends tokens")

    def attach(self, replica: Replica) -> Parts:
        if not self.settings.auth_enabled or self.settings.signing == "off":
            return Parts()
        self.check()
        # The import takes 26 ms, and few need it.
        from anyreplica.features.signatures.signed_requests import SignedRequests  # noqa: PLC0415

        keys = replica.attached("public_keys")[0]
        return Parts(request_checks=[SignedRequests(self.settings, keys, replica.redis, replica.limits.body)])
