"""Errors that the exchange answers itself, in JSON-RPC's form."""

from starlette.responses import JSONResponse

INVALID_REQUEST = -32600


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An HTTP error whose body is a JSON-RPC error without an id: the request was not read as far as that."""
    error = {"code": INVALID_REQUEST, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)
