"""Speed and memory of the server, measured on real processes against a bare floor."""
