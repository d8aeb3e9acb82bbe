"""Tools: every public function with `@tool` in this folder is served.

A new file with a new function is all there is to do. Files and folders that begin with `_` are left out.
"""
