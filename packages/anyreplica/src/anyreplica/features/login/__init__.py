"""The login of users with FastMCP's auth providers, on any replica."""
