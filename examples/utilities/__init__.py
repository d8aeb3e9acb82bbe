"""A pack with tools that convert and check text formats; `tools.py` lists the formats; there are no settings."""
