"""Responses as servers, proxies and accidents send them, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httptools", reason="the extra openai is not installed")
from runner.backends.openai_http import LONGEST_HEAD, Broken, Reply, Server
from runner.tokens import new_loop

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
        self.connections = self.closing = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r")[0] or b"0")
                self.requests.append(head + await reader.readexactly(length))
                response = self.responses.pop(0)
                if response is None:
                    continue
                whole = response.removesuffix(self.CLOSE)
                self.closing += whole != response
                for start in range(0, len(whole), self.piece):
                    writer.write(whole[start : start + self.piece])
                    await writer.drain()
                    await asyncio.sleep(0)
                if whole != response:
                    break
        writer.close()

    @contextlib.asynccontextmanager
    async def running(
        self,
        timeout: float = 60.0,
        tls: ssl.SSLContext | None = None,
        scheme: str = "http",
        host: str = "localhost",
    ) -> AsyncIterator[Server]:
        at = "::1" if ":" in host else "127.0.0.1"
        listening = await asyncio.start_server(self.serve, at, 0, ssl=tls, limit=2**20)
        port = listening.sockets[0].getsockname()[1]
        headers = {"Authorization": "Bearer key"}
        server = Server(f"{scheme}://{host}:{port}/x", headers, connect_timeout=60, timeout=timeout)
        try:
            yield server
        finally:
            server.close()
            listening.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def ask(lines: Lines, times: int = 1, **options: Any) -> list[tuple[Reply, bytes]]:
    async def main() -> list[tuple[Reply, bytes]]:
        found = []
        async with lines.running(**options) as server:
            for _ in range(times):
                taken: list[bytes] = []
                reply = await server.post("/v1/completions", b"{}", taken.append)
                found.append((reply, b"".join(taken)))
                await asyncio.sleep(0.01)
                await until(lambda: len(server._open) <= lines.connections - lines.closing)
        return found

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main())


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


def test_chunks_as_a_proxy_may_send_them() -> None:
    """With extensions, a size in capitals and with zeros, and trailers."""
    body = b"00A;name=value\r\n0123456789\r\n0;last\r\nServer-Timing: total;dur=5\r\n\r\n"
    lines = Lines(OK + b"Transfer-Encoding: Chunked\r\n\r\n" + body, CHUNKED, piece=3)
    assert [taken for _, taken in ask(lines, 2)] == [b"0123456789", b"firstsecond"]
    assert lines.connections == 1


def test_a_connection_that_was_closed_between_two_queries() -> None:
    """Without "Connection: close", as after a time-out for idle ones; and by a server of HTTP/1.0."""
    old = b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold"
    lines = Lines(CHUNKED + Lines.CLOSE, old, CHUNKED)
    found = [taken for _, taken in ask(lines, 3)]
    assert found == [b"firstsecond", b"old", b"firstsecond"]
    assert lines.connections == 3


def test_a_redirect_is_not_followed() -> None:
    moved = (
        b"HTTP/1.1 307 X\r\nLocation: http://other:8000/v1/completions\r\nContent-Length: 0\r\n\r\n"
    )
    assert ask(Lines(moved)) == [(Reply(307, b"", "http://other:8000/v1/completions"), b"")]


def test_ipv6() -> None:
    lines = Lines(CHUNKED)
    assert ask(lines, host="[::1]") == [(Reply(200, b""), b"firstsecond")]
    assert b"\r\nHost: [::1]:" in lines.requests[0]


@pytest.fixture(scope="module")
def authority() -> Any:
    return pytest.importorskip("trustme").CA()


def context(authority: Any, name: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(made)
    return made


def test_tls(authority: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An authority of one's own is given as to every program that uses OpenSSL."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    lines = Lines(CHUNKED, CHUNKED, piece=5)
    found = ask(lines, 2, tls=context(authority, "localhost"), scheme="https")
    assert found == [(Reply(200, b""), b"firstsecond")] * 2
    assert lines.connections == 1


def test_a_certificate_of_an_unknown_authority(authority: Any) -> None:
    with pytest.raises(Broken) as raised:
        ask(Lines(CHUNKED), tls=context(authority, "localhost"), scheme="https")
    assert str(raised.value).startswith("found a certificate that cannot be trusted (")
    assert raised.value.fix.startswith("Set SSL_CERT_FILE")


def test_a_certificate_for_another_name(
    authority: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with pytest.raises(Broken) as raised:
        ask(Lines(CHUNKED), tls=context(authority, "other.example"), scheme="https")
    assert str(raised.value).startswith("found a certificate for another name (Hostname mismatch")
    assert raised.value.fix == "Correct --url."


def test_tls_asked_of_a_server_without() -> None:
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(5)
            writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            writer.close()

        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        server = Server(f"https://127.0.0.1:{port}", {}, connect_timeout=60, timeout=60)
        with pytest.raises(Broken, match="found no TLS") as raised:
            await server.get("/v1/models")
        assert raised.value.fix == "Write http:// if the server has none."

    asyncio.run(main())


def test_plain_http_sent_to_a_server_with_tls(authority: Any) -> None:
    """Whether it sends its alert or just closes, it does not answer."""
    with pytest.raises(
        Broken, match=r"found TLS; expected plain HTTP|closed it before it answered"
    ):
        ask(Lines(CHUNKED), tls=context(authority, "localhost"))


# --- sent by another thread ---


class Here:
    """What was begun in another thread, and what came of it in the loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.result: asyncio.Future[Any] = self.loop.create_future()
        self.taken: list[bytes] = []

    def ended(self, result: Any) -> None:
        assert asyncio.get_running_loop() is self.loop
        self.result.set_result(result)

    async def post(self, server: Server, body: bytes = b"{}") -> bool:
        return await asyncio.to_thread(
            server.post_here, "/v1/completions", body, self.taken.append, self.ended
        )


def run(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main)


def test_sent_from_another_thread() -> None:
    """Over a connection that is idle, and over none else; large ones too."""

    async def main() -> None:
        lines, large = Lines(*[CHUNKED] * 3), b"x" * 20_000_000
        async with lines.running() as server:
            assert not await Here().post(server)
            await server.post("/v1/completions", b"{}", [].append)
            one, two = Here(), Here()
            assert await one.post(server, large)
            assert not await two.post(server)
            assert await one.result == Reply(200, b"")
            assert await two.post(server)
            assert await two.result == Reply(200, b"")
            assert one.taken == two.taken == [b"first", b"second"]
        assert lines.connections == 1
        assert [len(request) for request in lines.requests[::2]] == [len(lines.requests[0])] * 2
        assert lines.requests[1].endswith(b"\r\n\r\n" + large)

    run(main())


def test_sent_from_another_thread_on_a_connection_that_is_gone() -> None:
    """Closed and known to be: nothing was begun.  Closed a moment ago: it failed, once."""

    async def main() -> None:
        lines = Lines(CHUNKED + Lines.CLOSE, CHUNKED)
        async with lines.running() as server:
            await server.post("/v1/completions", b"{}", [].append)
            here = Here()
            # Without a moment for the event loop, which learns of the end only then.
            begun = server.post_here("/v1/completions", b"{}", here.taken.append, here.ended)
            if begun:
                assert isinstance(await here.result, Broken)
            await until(lambda: not server._open)
            assert not await Here().post(server)

    run(main())


def test_a_connection_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails that one query, in the event loop like any other failure."""

    def refuse(descriptor: int, data: bytes) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    async def main() -> None:
        async with Lines(CHUNKED).running() as server:
            await server.post("/v1/completions", b"{}", [].append)
            here = Here()
            with monkeypatch.context() as patch:
                patch.setattr("runner.backends.openai_http.os.write", refuse)
                assert server.post_here("/v1/completions", b"{}", here.taken.append, here.ended)
            with pytest.raises(Broken, match="it takes nothing"):
                raise await here.result
            assert not await Here().post(server)

    run(main())


def test_a_peak_of_the_load_finds_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """While answers are in work, connections that grew old are replaced before anybody needs them."""
    monkeypatch.setattr("runner.backends.openai_http.KEEP_S", 1000.0)
    monkeypatch.setattr("runner.backends.openai_http.LOOKS", 1000)

    async def main() -> None:
        lines = Lines(None, None, None, None, None, CHUNKED, CHUNKED, CHUNKED, CHUNKED)
        async with lines.running() as server:
            for _ in range(5):
                server.begin_post("/v1/completions", b"{}", [].append, lambda result: None)
            await until(lambda: len(server._idle) > 4)
            old = list(server._idle)
            for connection in old:
                connection._last -= 800  # of the 1,000 s
            await until(lambda: len(server._idle) > 4 and not set(old) & set(server._idle))
            more = [Here() for _ in range(3)]
            assert all([await here.post(server) for here in more])
            assert [await here.result for here in more] == [Reply(200, b"")] * 3

    run(main())


def test_tls_is_left_to_the_event_loop(
    authority: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    async def main() -> None:
        lines = Lines(CHUNKED)
        async with lines.running(tls=context(authority, "localhost"), scheme="https") as server:
            await server.post("/v1/completions", b"{}", [].append)
            assert not await Here().post(server)

    run(main())


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
        (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "found no HTTP/1.1 "),
        (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nshort", "found no HTTP/1.1 response: "),
        (b"\x15\x03\x03\x00\x02\x02\x46", "found TLS; expected plain HTTP"),
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
