"""A tool that answers at once, and one that takes as long as most that ask another service."""
