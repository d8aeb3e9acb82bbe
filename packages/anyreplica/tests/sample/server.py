"""The app of the sample server."""

from fastmcp import FastMCP

from anyreplica import App, Settings, app_factory
from anyreplica import create_app as create
from anyreplica.settings.words import WordList


class SampleSettings(Settings):
    """The settings of anyreplica with another default for `mcp_components`."""

    mcp_components: WordList = ("tests.sample",)


@app_factory
def create_app() -> App:
    """Create the app of one replica."""
    settings = SampleSettings.load()
    return create(FastMCP(settings.mcp_name, version="0.1.0"), settings)
