"""An MCP server whose replicas are identical: any of them answers any request."""

__version__ = "0.1.0"
