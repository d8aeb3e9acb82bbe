"""Example component packs; copy a pack, or serve it unchanged with `MCP_COMPONENTS=server,examples.files`."""
