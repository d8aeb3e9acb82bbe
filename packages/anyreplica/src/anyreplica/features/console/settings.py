"""Settings of the console."""

from typing import Literal

from anyreplica.settings import CoreSettings


class ConsoleSettings(CoreSettings):
    """Settings of the console."""

    console: Literal["auto", "on", "off"] = "auto"
    """The console at `/`: a page that calls the tools and shows the replicas. It sends the same requests to the server
    as any client, with the key or login of its user. `auto`: it asks before it calls a tool that is not marked as
    read-only (`readOnlyHint`). `on`: it does not ask. `off`: the page at `/` has no
    script. It says how to connect, and lists the components if callers need no key."""
