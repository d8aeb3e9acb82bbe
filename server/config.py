"""Your settings, in addition to those of anyreplica; the environment variable of a setting is its name in capitals."""

import anyreplica


class Settings(anyreplica.Settings):
    """All settings; `Settings.load()` reads them from environment variables and secrets, and checks them."""

    # To add a setting, import `Field` from pydantic and write:
    # weather_url: str = Field("https://api.example.com", description="URL of the weather API.")
