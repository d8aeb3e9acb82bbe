"""The load test: calls in flight, what came of them, and what that says of the deployment."""
