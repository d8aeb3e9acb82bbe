"""What `benchmarks.modes` is made of: the replicas, the proxy before them, the clients, and what these count."""
