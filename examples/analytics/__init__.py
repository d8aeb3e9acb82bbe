"""A pack with tools that query sales in a database; `tools.py` describes the database and the settings."""
