"""Settings of the server card."""

from pydantic import Field

from anyreplica.settings import CoreSettings


class ServerCardSettings(CoreSettings):
    """Settings of the server card."""

    server_card: bool = True
    """Whether the server has a server card and an AI catalog. Everybody may read them, also with authentication. They
    have the name, version, address, icons and website of the server. Without authentication, they also have the first
    line of its instructions. They have no tools."""
    server_card_name: str = Field("", max_length=200, pattern=r"^([a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+)?$")
    """Name of the server in catalogs, such as `com.example/weather`. Empty: the host of `PUBLIC_URL` or of the request
    in reverse order, and `MCP_NAME`."""
