"""Discovery, containment, call limits and result caching of the functions that tool authors write."""
