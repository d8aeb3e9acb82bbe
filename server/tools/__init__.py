"""Tools: anyreplica serves every public function in this folder that has the decorator `@tool`.

To add a tool, add a file with a function. anyreplica ignores files and folders whose names begin with `_`.
"""
