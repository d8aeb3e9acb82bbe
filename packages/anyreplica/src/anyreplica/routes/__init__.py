"""Routes in addition to `/mcp`, for people, probes and operators."""
