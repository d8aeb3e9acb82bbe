"""Your settings, beside those of mcp-swarm. A setting's variable is its name in capitals."""

import mcp_swarm


class Settings(mcp_swarm.Settings):
    """All settings: `Settings.load()` reads them from environment variables and from secrets, and checks them."""

    # With `from pydantic import Field` above:
    # weather_url: str = Field("https://api.example.com", description="The API that the tools of weather.py call.")
