"""A replica as a process."""
