"""`/jobs`: jobs over plain HTTP, for callers that speak no MCP.

| request | reply |
| --- | --- |
| `POST /jobs` `{"job": …, "params": {…}}` | 202, `Location`, status; header `Idempotency-Key` makes a repeat harmless |
| `GET /jobs?limit=50&cursor=…` | 200, the caller's own jobs, newest first |
| `GET /jobs/{id}` or `/jobs/{id}/status` | 200, status |
| `GET /jobs/{id}/result` | 200, result; 202 while there is none; 409 if it failed or was cancelled |
| `DELETE /jobs/{id}` | 200, cancelled, or what had become of it |
"""

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from server.exchange.body import Body
from server.exchange.errors import Refused
from server.middleware.guard import owner_of
from server.work.desk import PAGE, Desk
from server.work.errors import JobError, invalid

_LONGEST_PAGE = 500
_WAIT = {"Retry-After": "1"}


class Submission(BaseModel):
    """The body of `POST /jobs`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    job: str
    params: dict[str, Any] = {}


def job_routes(desk: Desk, body: Body) -> list[Route]:
    """The routes.

    Args:
        body: reads bodies, within its bounds.
    """

    async def submit(request: Request) -> Response:
        sent = await body.read(request.receive, request.headers.get("content-length", "").encode() or None)
        try:
            wanted = Submission.model_validate_json(sent)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"])) or "body"
            text = f'{where}: {problem["msg"]}. Send {{"job": "name", "params": {{…}}}}.'
            return _error(400, "bad_request", text)
        key = request.headers.get("idempotency-key")
        record = await desk.submit(owner_of(request.scope), wanted.job, wanted.params, key)
        return JSONResponse(record.status(), 202, {"Location": f"/jobs/{record.id}/status"})

    async def list_own(request: Request) -> Response:
        limit = request.query_params.get("limit", str(PAGE))
        if not limit.isascii() or not limit.isdecimal() or not 1 <= int(limit) <= _LONGEST_PAGE:
            raise invalid(f"limit: a number from 1 to {_LONGEST_PAGE}.")
        records, after = await desk.of(owner_of(request.scope), int(limit), request.query_params.get("cursor"))
        return JSONResponse({"jobs": [record.status() for record in records], "next_cursor": after})

    async def status(request: Request) -> Response:
        return JSONResponse((await desk.status(owner_of(request.scope), request.path_params["id"])).status())

    async def result(request: Request) -> Response:
        record, value = await desk.result(owner_of(request.scope), request.path_params["id"])
        if record.state == "completed":
            return JSONResponse({**record.status(), "result": value})
        if record.is_finished:
            return JSONResponse(record.status(), 409)
        return JSONResponse(record.status(), 202, _WAIT)

    async def cancel(request: Request) -> Response:
        return JSONResponse((await desk.cancel(owner_of(request.scope), request.path_params["id"])).status())

    return [
        Route("/jobs", _told(submit), methods=["POST"]),
        Route("/jobs", _told(list_own), methods=["GET"]),
        Route("/jobs/{id}", _told(status), methods=["GET"]),
        Route("/jobs/{id}", _told(cancel), methods=["DELETE"]),
        Route("/jobs/{id}/status", _told(status), methods=["GET"]),
        Route("/jobs/{id}/result", _told(result), methods=["GET"]),
    ]


Endpoint = Callable[[Request], Awaitable[Response]]


def _told(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose refusals are replies."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except JobError as error:
            wait = {"Retry-After": str(error.retry_after)} if error.retry_after else None
            return _error(error.status, error.code, str(error), wait)
        except Refused as refused:
            return _error(refused.status, "bad_request", refused.message, dict(refused.headers))

    return answer


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": code, "message": message}, status, headers)
