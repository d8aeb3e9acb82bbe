"""The same echo on the official SDKs and on stock FastMCP: sources, how they are built, and how they are measured."""
