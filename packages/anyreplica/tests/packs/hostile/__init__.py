"""Components that misbehave in every possible way."""
