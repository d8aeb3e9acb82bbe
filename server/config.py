"""Your settings, in addition to those of mcp-swarm; the environment variable of a setting is its name in capitals."""

import mcp_swarm


class Settings(mcp_swarm.Settings):
    """All settings; `Settings.load()` reads them from environment variables and secrets, and checks them."""

    # To add a setting, import `Field` from pydantic and write:
    # weather_url: str = Field("https://api.example.com", description="URL of the weather API.")
