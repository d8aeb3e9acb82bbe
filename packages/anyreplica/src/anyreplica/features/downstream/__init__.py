"""The feature that calls APIs: the HTTP client of `anyreplica.downstream`, its limits and its exchange of tokens."""
