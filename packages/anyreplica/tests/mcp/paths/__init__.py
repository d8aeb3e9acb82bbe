"""Tests that the fast path and the FastMCP path give the same answer to every request.

Two servers with the same components run in this process. The first server works as in production. The tests remove all
call plans and caches of the second server, so that FastMCP and the SDK answer every request. Each request goes to both
servers.
"""
