"""Jobs: clients can submit every public async function in this folder that has the decorator `@job`.

To add a job, add a file with a function:

    from anyreplica import Progress, job

    @job(timeout=600)
    async def digest(pages: int, progress: Progress) -> dict[str, int]: ...

anyreplica ignores files and folders whose names begin with `_`.
"""
