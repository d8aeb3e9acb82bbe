"""The metrics that a replica serves at `/metrics`."""
