"""Components that misbehave in every way a component can."""
