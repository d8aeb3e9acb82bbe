"""What a caller of a job is told when it can't have what it asks for."""


class JobError(Exception):
    """Why not: the HTTP status, a word for programs, and a text for the caller.

    After `retry_after` seconds it is worth to try again; 0: it isn't.
    """

    def __init__(self, status: int, code: str, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


def not_found() -> JobError:
    """Of a job that isn't there, was there, or is somebody else's: nobody learns which."""
    return JobError(404, "not_found", "There is no such job, or it is gone: finished ones are kept for a time only.")


def invalid(message: str) -> JobError:
    """Of a submission that doesn't fit."""
    return JobError(422, "invalid", message)


def unavailable() -> JobError:
    """Of a queue that can't be reached."""
    return JobError(503, "unavailable", "Jobs can't be reached at the moment; try again.", retry_after=2)
