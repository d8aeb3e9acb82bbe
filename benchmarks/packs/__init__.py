"""Component packs that the studies serve; `MCP_COMPONENTS` names one of them."""
