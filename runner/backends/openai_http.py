"""HTTP/1.1 for streamed answers: what comes is handed on before anything else happens to it.

A general client (aiohttp) takes a request apart and puts it together, and passes what it receives from task
to task. On a processor that was idle that is half a millisecond of a time to first token, and half of
the processor time of a token. Here a request is one write, a response is parsed by llhttp (httptools), and its
body goes to `take` from the event loop's own callback. Nothing is followed, retried or decompressed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools

KEEP_S = 4.0
"""Idle connections are given up before a server does it (uvicorn: 5 s): a request sent on one that
is just being closed would fail.  A new one adds half a millisecond to a time to first token."""
LONGEST_HEAD = 256 * 2**10
LONGEST_BODY = 16 * 2**20
"""Bytes of a response that is not streamed."""
Take = Callable[[bytes], None]


class Reply(NamedTuple):
    """A response that came to its end; the body is empty where it was streamed."""

    status: int
    body: bytes


class Broken(ConnectionError):
    """No response, or not all of it; says why."""


class Server:
    """One server, and the connections to it that are kept between answers.

    Belongs to the event loop that it is used in.

    Args:
        base: http://host:port or https://…, perhaps with a path.
        headers: sent with every request.
        connect_timeout: seconds to connect; `timeout`: seconds without a byte of a response.
    """

    def __init__(
        self, base: str, headers: Mapping[str, str], *, connect_timeout: float, timeout: float
    ) -> None:
        self.base = base
        parts = urlsplit(base)
        secure = parts.scheme == "https"
        self._tls = ssl.create_default_context() if secure else None
        self._host = parts.hostname or ""
        self._address = (self._host, parts.port or (443 if secure else 80))
        self._path = parts.path.rstrip("/")
        self._head = f"Host: {parts.netloc}\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in headers.items()
        )
        self._connect_timeout, self.timeout = connect_timeout, timeout
        self._idle: list[_Connection] = []
        self._heads: dict[str, bytes] = {}

    async def get(self, path: str) -> Reply:
        """The whole response.

        Raises:
            OSError: no connection, or it broke; TimeoutError is one of them.
        """
        return await self._exchange(self._request("GET", path) + b"\r\n", None)

    async def post(self, path: str, body: bytes, take: Take) -> Reply:
        """The response, of which `take` gets the body as it comes if the status is 200.

        Raises:
            OSError: as `get`; whatever `take` raises.
        """
        head = self._heads.get(path)
        if head is None:
            head = self._heads[path] = self._request("POST", path) + b"Content-Length: "
        return await self._exchange(b"%b%d\r\n\r\n%b" % (head, len(body), body), take)

    def _request(self, method: str, path: str) -> bytes:
        return f"{method} {self._path}{path} HTTP/1.1\r\n{self._head}".encode("latin-1")

    async def _exchange(self, request: bytes, take: Take | None) -> Reply:
        connection = self._kept() or await self._connect()
        try:
            return await connection.exchange(request, take)
        finally:
            if connection.reusable:
                self._idle.append(connection)
            else:
                connection.abort()

    def _kept(self) -> _Connection | None:
        """The connection that was used last: its memory is warm, and the others may grow old."""
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and connection.idle_s < KEEP_S:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> _Connection:
        try:
            async with asyncio.timeout(self._connect_timeout):
                transport, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self.timeout),
                    *self._address,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )
        except TimeoutError as error:
            raise Broken(f"no connection in {self._connect_timeout:g} s") from error
        # A name is looked up once; after that the address that took the connection is used.
        self._address = transport.get_extra_info("peername")[:2]
        return connection

    def close(self) -> None:
        """Close every connection that is idle; those in use close with their answer."""
        for connection in self._idle:
            connection.abort()
        self._idle.clear()


class _Connection(asyncio.Protocol):
    """One exchange at a time.  The methods `on_…` are called by the parser."""

    def __init__(self, timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._done: asyncio.Future[Reply] | None = None
        self._take: Take | None = None
        self._clock: asyncio.TimerHandle | None = None
        self._last = self._loop.time()
        self._forget()

    def _forget(self) -> None:
        self._head = 0
        self._framed = False
        self._began = False
        self._kept: list[bytes] = []
        self._size = 0

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return self._done is None and self._transport is not None

    @property
    def idle_s(self) -> float:
        return self._loop.time() - self._last

    async def exchange(self, request: bytes, take: Take | None) -> Reply:
        assert self._transport is not None
        self._take = take
        done: asyncio.Future[Reply] = self._loop.create_future()
        self._done = done
        self._last = self._loop.time()
        if self._clock is None:
            self._clock = self._loop.call_later(self._timeout, self._look)
        self._transport.write(request)
        try:
            return await done
        finally:
            self._take = None

    def abort(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def _look(self) -> None:
        """One timer of a connection, not one of each chunk."""
        self._clock = None
        if self._done is None:
            return
        left = self._last + self._timeout - self._loop.time()
        if left <= 0:
            self._fail(TimeoutError(f"no byte for {self._timeout:g} s"))
        else:
            self._clock = self._loop.call_later(left, self._look)

    def _fail(self, error: BaseException) -> None:
        done, self._done = self._done, None
        self.abort()
        if done is not None and not done.done():
            done.set_exception(error)

    def _end(self, reply: Reply) -> None:
        done, self._done = self._done, None
        self._forget()
        if done is not None and not done.done():
            done.set_result(reply)

    # --- asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass

    def data_received(self, data: bytes) -> None:
        if self._done is None:  # a server that gives up an idle connection may say so
            self.abort()
            return
        self._last = self._loop.time()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(Broken(f"found no HTTP/1.1 response: {error}"))
            return
        if not self._began:
            self._head += len(data)
            if self._head > LONGEST_HEAD:
                self._fail(
                    Broken(f"found a response with more than {LONGEST_HEAD:,} bytes of headers")
                )

    def connection_lost(self, error: Exception | None) -> None:
        if error is None and self._began and not self._framed:
            # Without a length the end of the connection is the end of the body.
            self._end(Reply(self._parser.get_status_code(), b"".join(self._kept)))
        elif self._done is not None:
            where = "in the middle of the answer" if self._began else "before it answered"
            cause = f" ({error})" if error is not None else ""
            self._fail(Broken(f"the server closed it {where}{cause}"))
        self.abort()

    # --- the parser ---

    def on_message_begin(self) -> None:
        if self._done is None:  # bytes behind the response
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self._framed = True
        elif name == b"content-encoding" and value.lower() != b"identity":
            shown = value[:40].decode("latin-1")
            self._fail(Broken(f"found Content-Encoding {shown}, which was not accepted"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._began = status >= 200  # else "100 Continue" and the like
        if self._began and status != 200:
            self._take = None

    def on_body(self, body: bytes) -> None:
        if self._done is None:  # failed in this very piece of data
            return
        if self._take is None:
            self._size += len(body)
            if self._size > LONGEST_BODY:
                self._fail(Broken(f"found a response of more than {LONGEST_BODY:,} bytes"))
            self._kept.append(body)
            return
        try:
            self._take(body)
        except BaseException as error:
            self._fail(error)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if not self._began:
            self._forget()
        elif self._done is not None:
            reply = Reply(status, b"".join(self._kept))
            if not self._parser.should_keep_alive():
                self._transport, transport = None, self._transport
                if transport is not None:
                    transport.close()
            self._end(reply)
