"""Both paths say the same: whatever is asked, the fast path's answer is the one that the FastMCP path would give.

Two servers of the same components stand side by side in this process. One works as it does in production; of the other
all plans and memories are taken away, so that FastMCP and the SDK answer every request. Each request goes to both.
"""
