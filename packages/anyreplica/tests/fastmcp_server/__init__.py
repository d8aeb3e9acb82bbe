"""Tests that all features of FastMCP work on any replica.

The folder `served` has a plain FastMCP server, as its author would write it for `fastmcp run`. Three replicas serve it
with `anyreplica run`. A proxy sends each request to the next replica.
"""
