"""How many calls a caller may make, in the fleet or in each replica."""
