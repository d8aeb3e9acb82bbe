"""What a replica tells of itself at `/metrics`."""
