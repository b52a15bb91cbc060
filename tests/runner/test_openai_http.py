"""Responses as servers, proxies and accidents send them, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("httptools", reason="the extra openai is not installed")
from runner.backends.openai_http import LONGEST_HEAD, Broken, Reply, Server

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n"


class Lines:
    """A server that answers each request with the next of its responses; None: with nothing.

    A response that ends with CLOSE is the last on its connection.
    """

    CLOSE = b"(close)"

    def __init__(self, *responses: bytes | None, piece: int = 1_000_000) -> None:
        self.responses, self.piece = list(responses), piece
        self.requests: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r")[0] or b"0")
                self.requests.append(head + await reader.readexactly(length))
                response = self.responses.pop(0)
                if response is None:
                    continue
                whole = response.removesuffix(self.CLOSE)
                for start in range(0, len(whole), self.piece):
                    writer.write(whole[start : start + self.piece])
                    await writer.drain()
                    await asyncio.sleep(0)
                if whole != response:
                    break
        writer.close()

    @contextlib.asynccontextmanager
    async def running(self, timeout: float = 5.0) -> AsyncIterator[Server]:
        listening = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        headers = {"Authorization": "Bearer key"}
        server = Server(f"http://localhost:{port}/x", headers, connect_timeout=5, timeout=timeout)
        try:
            yield server
        finally:
            server.close()
            listening.close()


def ask(lines: Lines, times: int = 1, **options: Any) -> list[tuple[Reply, bytes]]:
    async def main() -> list[tuple[Reply, bytes]]:
        found = []
        async with lines.running(**options) as server:
            for _ in range(times):
                taken: list[bytes] = []
                reply = await server.post("/v1/completions", b"{}", taken.append)
                found.append((reply, b"".join(taken)))
                await asyncio.sleep(0.01)
        return found

    return asyncio.run(main())


@pytest.mark.parametrize("piece", [1, 7, 1_000_000])
def test_streamed(piece: int) -> None:
    """Cut anywhere, over one connection, with a 100 Continue before the second."""
    lines = Lines(CHUNKED, b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED, piece=piece)
    assert ask(lines, 2) == [(Reply(200, b""), b"firstsecond")] * 2
    assert lines.connections == 1
    head, _, body = lines.requests[1].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /x/v1/completions HTTP/1.1\r\nHost: localhost:")
    assert head.endswith(b"\r\nAuthorization: Bearer key\r\nContent-Length: 2")
    assert body == b"{}"


def test_the_end_of_the_connection_ends_a_body_without_a_length() -> None:
    lines = Lines(OK + b"\r\nall of it" + Lines.CLOSE, CHUNKED)
    assert [taken for _, taken in ask(lines, 2)] == [b"all of it", b"firstsecond"]
    assert lines.connections == 2


def test_a_refusal_is_not_taken_for_an_answer() -> None:
    lines = Lines(
        b"HTTP/1.1 429 Slow\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy", CHUNKED
    )
    assert ask(lines, 2) == [(Reply(429, b"busy"), b""), (Reply(200, b""), b"firstsecond")]
    assert lines.connections == 2


def test_more_than_was_asked_for() -> None:
    """Such as "408 Request Timeout" on an idle connection: it is not used again."""
    lines = Lines(CHUNKED + CHUNKED, CHUNKED)
    assert [taken for _, taken in ask(lines, 2)] == [b"firstsecond"] * 2
    assert lines.connections == 2


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (Lines.CLOSE, "the server closed it before it answered"),
        (CHUNKED[:-9] + Lines.CLOSE, "the server closed it in the middle of the answer"),
        (OK + b"Content-Length: 9\r\n\r\nshort" + Lines.CLOSE, "the server closed it in the middle"),
        (b"SSH-2.0-OpenSSH\r\n", "found no HTTP/1.1 response: "),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nfive\r\n", "found no HTTP/1.1 response: "),
        (OK + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "found Content-Encoding gzip, "),
        (OK + b"X: " + b"x" * LONGEST_HEAD, "bytes of headers"),
    ],
)  # fmt: skip
def test_broken(response: bytes, said: str) -> None:
    with pytest.raises(Broken) as raised:
        ask(Lines(response))
    assert said in str(raised.value)


@pytest.mark.parametrize("response", [None, OK, CHUNKED[:-9]])
def test_silent(response: bytes | None) -> None:
    with pytest.raises(TimeoutError, match=r"no byte for 0\.1 s"):
        ask(Lines(response), timeout=0.1)


def test_what_take_raises() -> None:
    async def main() -> int:
        lines = Lines(CHUNKED, CHUNKED)
        async with lines.running() as server:

            def refuse(data: bytes) -> None:
                raise ValueError(data)

            with pytest.raises(ValueError, match="first"):
                await server.post("/v1/completions", b"{}", refuse)
            taken: list[bytes] = []
            await server.post("/v1/completions", b"{}", taken.append)
            assert taken == [b"first", b"second"]
        return lines.connections

    assert asyncio.run(main()) == 2
