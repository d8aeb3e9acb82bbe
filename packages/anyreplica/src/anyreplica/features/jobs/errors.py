"""Errors of the job service, with their HTTP statuses and texts for clients."""


class JobError(Exception):
    """A refusal of the job service, with an HTTP status, a code for programs and a message for people.

    The client may retry after `retry_after` seconds. 0: a retry does not help.
    """

    def __init__(self, status: int, code: str, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


def not_found() -> JobError:
    """Return the error for a job that is unknown, deleted, or owned by another caller.

    The text is the same in all three cases, so that a caller cannot find out that another caller's job exists.
    """
    text = "There is no such job: the id is wrong, or the retention time of the finished job is over."
    return JobError(404, "not_found", text)


def invalid(message: str) -> JobError:
    """Return the error for an invalid submission."""
    return JobError(422, "invalid", message)


def unavailable() -> JobError:
    """Return the error for a job queue that cannot be reached."""
    return JobError(503, "unavailable", "The job queue cannot be reached; retry in 2 s.", retry_after=2)
