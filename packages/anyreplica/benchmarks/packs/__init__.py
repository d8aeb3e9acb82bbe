"""Component packs of the studies. A study names the packs that its server needs in `MCP_COMPONENTS`."""
