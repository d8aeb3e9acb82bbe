"""Tools that wait without CPU time."""
