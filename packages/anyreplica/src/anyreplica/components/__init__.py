"""Discovery, containment and call limits of the functions that tool authors write."""
