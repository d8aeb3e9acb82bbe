"""Tool packs to copy. Each is served as it is, too: `MCP_COMPONENTS=server,examples.files`."""
