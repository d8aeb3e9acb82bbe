"""`/jobs`: jobs over plain HTTP, for clients that do not use MCP.

| request | reply |
| --- | --- |
| `POST /jobs` `{"job": …, "params": {…}}` | 202, `Location`, status; with an `Idempotency-Key` a retry is safe |
| `GET /jobs?limit=50&cursor=…` | 200, the jobs of the caller, newest first |
| `GET /jobs/{id}` or `/jobs/{id}/status` | 200, status |
| `GET /jobs/{id}/result` | 200, result; 202 before the end of the job; 409 if the job failed or was cancelled |
| `DELETE /jobs/{id}` | 200, status: cancelled, or the final state of a job that has already finished |
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anyreplica.auth.caller import may_use, owner_of
from anyreplica.components import problems
from anyreplica.features.jobs.record import JobError, invalid
from anyreplica.features.jobs.service import PAGE, JobService
from anyreplica.http.refusal import ClientGone, Refused
from anyreplica.http.request_limits import RequestLimits
from anyreplica.http.request_record import LONGEST, record_of
from anyreplica.mcp.message import LONGEST_NAME, memory_of

_LONGEST_PAGE = 500

Endpoint = Callable[[Request, str], Awaitable[Response]]
"""Answers a request. The second argument is the owner of the jobs."""


class Submission(BaseModel):
    """The body of `POST /jobs`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    job: str
    params: dict[str, Any] = {}


@dataclass
class JobRoutes:
    """The endpoints of `/jobs`.

    `limits` first checks Host and Origin, so that a page in a browser cannot submit jobs to a server on a loopback
    address. Then it applies the limits.
    """

    service: JobService
    limits: RequestLimits

    def routes(self) -> list[Route]:
        """Return a route for each path and method."""
        table = [
            ("POST", "/jobs", self._submit),
            ("GET", "/jobs", self._list),
            ("GET", "/jobs/{id}", self._status),
            ("DELETE", "/jobs/{id}", self._cancel),
            ("GET", "/jobs/{id}/status", self._status),
            ("GET", "/jobs/{id}/result", self._result),
        ]
        return [Route(path, self._answering(endpoint), methods=[method]) for method, path, endpoint in table]

    async def _submit(self, request: Request, owner: str) -> Response:
        declared = request.headers.get("content-length")
        sent = await self.limits.body.read(request.receive, declared.encode() if declared else None)
        try:
            wanted = Submission.model_validate_json(sent)
        except ValidationError as error:
            text = f'{problems.describe_validation_error(error, "body")}. Send {{"job": "name", "params": {{…}}}}.'
            return _error(400, "bad_request", text)
        if len(wanted.job) > LONGEST_NAME:
            return _error(400, "bad_request", f"job: the name is too long; the limit is {LONGEST_NAME} characters.")
        key = request.headers.get("idempotency-key")
        record_of(request.scope).called = ("", wanted.job[:LONGEST])
        for observe in self.limits.on_call:
            observe(request.scope, {"arguments": wanted.params})
        allowed = partial(may_use, request.scope)
        release = await self.limits.acquire(self.limits.in_flight, request.scope, wanted.job, None, memory_of(sent))
        try:
            record = await self.service.submit(owner, wanted.job, wanted.params, key, allowed=allowed)
        finally:
            release()
        return JSONResponse(record.status(), 202, {"Location": f"/jobs/{record.id}/status"})

    async def _list(self, request: Request, owner: str) -> Response:
        limit = request.query_params.get("limit", str(PAGE))
        if not re.fullmatch(r"[0-9]{1,3}", limit) or not 1 <= int(limit) <= _LONGEST_PAGE:
            raise invalid(f"limit: must be a number from 1 to {_LONGEST_PAGE}.")
        records, after = await self.service.of(owner, int(limit), request.query_params.get("cursor"))
        return JSONResponse({"jobs": [record.status() for record in records], "next_cursor": after})

    async def _status(self, request: Request, owner: str) -> Response:
        return JSONResponse((await self.service.status(owner, request.path_params["id"])).status())

    async def _result(self, request: Request, owner: str) -> Response:
        record, value = await self.service.result(owner, request.path_params["id"])
        if record.state == "completed":
            return JSONResponse({**record.status(), "result": value})
        if record.is_finished:
            return JSONResponse(record.status(), 409)
        return JSONResponse(record.status(), 202, {"Retry-After": "1"})

    async def _cancel(self, request: Request, owner: str) -> Response:
        return JSONResponse((await self.service.cancel(owner, request.path_params["id"])).status())

    def _answering(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        """Wrap an endpoint so that its errors and refusals become replies."""

        async def answer(request: Request) -> Response:
            try:
                limits = self.limits
                await limits.heads.check_source(request.scope, request.receive)
                if request.method == "POST":  # `_submit` reads the job's name and then calls `limits.acquire`
                    return await endpoint(request, owner_of(request.scope))
                release = await limits.acquire(limits.in_flight, request.scope, "", None, 0)
                try:
                    return await endpoint(request, owner_of(request.scope))
                finally:
                    release()
            except JobError as error:
                wait = {"Retry-After": str(error.retry_after)} if error.retry_after else None
                return _error(error.status, error.code, str(error), wait)
            except ClientGone:
                return Response(status_code=499)  # nobody reads this response; the status is for the log
            except Refused as refused:
                return _error(refused.status, "refused", refused.message, dict(refused.headers))

        return answer


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": code, "message": message}, status, headers)
