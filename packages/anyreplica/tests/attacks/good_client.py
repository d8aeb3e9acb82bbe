"""`python -m tests.attacks.good_client HOST PORT`: call `echo` until stdin has a line or ends, then report.

It prints a line after its first call. It is a process of its own, so that its figures describe the replica and not the
attacker. Every fifth call uses a new connection. If the replica has closed a kept connection, the client sends the call
again, as HTTP clients do (RFC 9110, section 9.2.2, RFC 9112, section 9.3.1).
"""

import http.client
import json
import select
import sys
import time

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HEADERS |= {"MCP-Protocol-Version": "2025-11-25"}
_PAUSE = 0.02


def main() -> None:
    """Make calls until stdin has a line or ends; then print the figures as JSON."""
    host, port = sys.argv[1], int(sys.argv[2])
    connection: http.client.HTTPConnection | None = None
    figures = {"calls": 0, "longest": 0.0}
    failures: list[str] = []
    while not select.select([sys.stdin], [], [], _PAUSE)[0]:
        number = int(figures["calls"])
        if number % 5 == 0 and connection is not None:
            connection.close()
            connection = None
        begun = time.perf_counter()
        try:
            connection, kept = connection or http.client.HTTPConnection(host, port, timeout=60), connection is not None
            try:
                _call(connection, number)
            except (http.client.RemoteDisconnected, ConnectionError):
                if not kept:
                    raise
                connection = http.client.HTTPConnection(host, port, timeout=60)
                _call(connection, number)
        except (OSError, http.client.HTTPException, AssertionError) as error:
            failures.append(f"{type(error).__name__}: {error}"[:300])
            connection = None
        if number == 0:
            print("called", flush=True)
        figures["calls"] += 1
        figures["longest"] = max(figures["longest"], time.perf_counter() - begun)
    print(json.dumps({**figures, "failures": failures}))


def _call(connection: http.client.HTTPConnection, number: int) -> None:
    message = f"good {number}"
    params = {"name": "echo", "arguments": {"message": message}}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    connection.request("POST", "/mcp", body, HEADERS)
    reply = connection.getresponse()
    text = reply.read()
    text = text.partition(b"data: ")[2] or text  # the reply is an event stream if JSON_RESPONSE=false
    if reply.status != 200 or json.loads(text)["result"]["content"][0]["text"] != message:
        raise AssertionError(f"{reply.status} {text[:200]!r}")


if __name__ == "__main__":
    main()
