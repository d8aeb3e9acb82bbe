"""Jobs: every public async function with `@job` in this folder can be submitted.

A new file with a new function is all there is to do:

    from mcp_swarm import Progress, job

    @job(timeout=600)
    async def digest(pages: int, progress: Progress) -> dict[str, int]: ...

Files and folders that begin with `_` are left out.
"""
