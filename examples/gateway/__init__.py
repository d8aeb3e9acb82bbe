"""A pack with tools that read HTTP APIs, and transform and validate JSON; `apis.py` describes the settings."""
