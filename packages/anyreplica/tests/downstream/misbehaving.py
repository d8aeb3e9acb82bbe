"""An HTTP server that behaves as the path of a request says: `python -m tests.downstream.misbehaving PORT`.

/ok, /status/503/2 (Retry-After: 2), /flaky/2/x (503 twice, then 200), /silent (no answer), /dribble (one byte at a
time), /reset, /cut (ends within the body), /garbage, /large, /gzip, /redirect, /echo (returns the request's head).
`/seen` returns the number of requests for each path and the maximum number of requests at the same time, since
`/forget`.
"""

import asyncio
import json
import socket
import struct
import sys
from collections import Counter

SEEN: Counter[str] = Counter()
NOW: Counter[str] = Counter()


def answer(status: int, body: bytes, *headers: str, length: int | None = None) -> bytes:
    """Return a response."""
    lines = [f"HTTP/1.1 {status} whatever", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1].partition("?")[0]
            if path == "/seen":
                writer.write(answer(200, json.dumps({**SEEN, "at once": NOW["most"]}).encode()))
                continue
            if path == "/forget":
                SEEN.clear()
                NOW["most"] = 0
                writer.write(answer(200, b""))
                continue
            SEEN[path] += 1
            NOW["now"] += 1
            NOW["most"] = max(NOW["most"], NOW["now"])
            try:
                await _answer(path, head, reader, writer)
            finally:
                NOW["now"] -= 1
    except (asyncio.IncompleteReadError, OSError):
        pass  # the client is gone
    finally:
        writer.close()


async def _answer(path: str, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    kind, *values = path.strip("/").split("/")
    if kind == "status":
        writer.write(answer(int(values[0]), b"secret of the host", *(f"Retry-After: {each}" for each in values[1:])))
    elif kind == "flaky":
        writer.write(answer(503 if SEEN[path] <= int(values[0]) else 200, b"{}"))
    elif kind == "silent":
        await reader.read()
    elif kind == "dribble":
        writer.write(answer(200, b"", length=10_000))
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)
    elif kind == "reset":
        option = struct.pack("ii", 1, 0)  # linger for 0 s: a reset instead of an end
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
        writer.transport.abort()
    elif kind == "cut":
        writer.write(answer(200, b"{", length=100))
        writer.close()
    elif kind == "echo":
        writer.write(answer(200, head.encode(), "Set-Cookie: caller=one"))
    else:
        writer.write(_ODD.get(kind, answer(200, b'{"fine": true}')))


_ODD = {
    "garbage": b"internal garbage\r\n\r\n",
    "redirect": answer(302, b"", "Location: /ok"),
    "large": answer(200, b" " * 2_000_000),
    "gzip": answer(200, b"\x1f\x8b", "Content-Encoding: gzip"),
}


async def main(port: int) -> None:
    """Serve until the process ends."""
    server = await asyncio.start_server(_serve, "127.0.0.1", port, backlog=1000)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
