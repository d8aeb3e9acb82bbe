"""The mark that a decorator of anyreplica leaves on a function, so that discovery finds the function."""

MARK = "__anyreplica__"
"""Name of the function attribute with the mark: the kind of the function and its options."""
