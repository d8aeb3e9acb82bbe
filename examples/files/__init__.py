"""A pack with tools that list, read and search files; `tools.py` describes the settings."""
