"""The number of replicas of a service follows its load."""
