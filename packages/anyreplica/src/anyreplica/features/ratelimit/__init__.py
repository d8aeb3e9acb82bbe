"""Rate limits of callers, for all replicas together or for each replica."""
