"""Component packages that the tests serve."""
