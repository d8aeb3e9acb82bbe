"""Tools: the server serves every public function with `@tool` in this folder.

To add a tool, add a file with a function. Files and folders that begin with `_` are left out.
"""
