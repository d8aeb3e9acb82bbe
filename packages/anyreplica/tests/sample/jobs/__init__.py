"""Jobs: clients can submit every public async function with `@job` in this folder.

To add a job, add a file with a function:

    from anyreplica import Progress, job

    @job(timeout=600)
    async def digest(pages: int, progress: Progress) -> dict[str, int]: ...

Files and folders that begin with `_` are left out.
"""
