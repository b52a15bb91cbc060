"""HTTP/1.1 for streamed answers: what comes is handed on before anything else happens to it.

A general client (aiohttp) takes a request apart and puts it together, and passes what it receives from task
to task. On a processor that was idle that is half a millisecond of a time to first token, and half of
the processor time of a token. Here a request is one write, by the thread that has the query where a connection
is idle; a response is parsed by llhttp (httptools), and its body goes to `take` from the event loop's own
callback. Nothing is followed, retried or decompressed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools

KEEP_S = 4.0
"""Idle connections are given up before a server does it (uvicorn: 5 s): a request sent on one that
is just being closed would fail.  A new one adds half a millisecond to a time to first token."""
FRESH = 0.7
"""Of `KEEP_S`: so long may a connection wait to be used before another takes its place."""
FORGET = 0.8
"""What is left of the most answers in work at the next look."""
PAUSE_S = 0.02
"""Between two spare connections: making one takes the event loop a third of a millisecond."""
CAN_WRITE = sys.platform != "win32"  # where a socket is not a file
LONGEST_HEAD = 256 * 2**10
LONGEST_BODY = 16 * 2**20
"""Bytes of a response that is not streamed."""
TLS_ALERT = b"\x15\x03"
"""How a TLS server's answer to plain HTTP begins."""
FOUND_TLS = "found TLS; expected plain HTTP, because --url begins with http:"
WRITE_HTTPS = "Write https:// in --url."
WRONG_NAME = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and …_IP_ADDRESS_MISMATCH of OpenSSL."""
LOOKS = 8
"""How often a time-out is looked for in its time, but every second at least."""
Take = Callable[[bytes], None]


class Reply(NamedTuple):
    """A response that came to its end; the body is empty where it was streamed.

    `location` is where a redirect leads, which is not followed; else empty.
    """

    status: int
    body: bytes
    location: str = ""


class Broken(ConnectionError):
    """No response, or not all of it; says why, and in `fix` what to do where that is known."""

    def __init__(self, text: str, fix: str = "") -> None:
        super().__init__(text)
        self.fix = fix


Ended = Callable[[Reply | BaseException], None]
"""Called once for each request, from the event loop: with the response, or with what went wrong."""


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
        # In the order of their last use.  Any thread takes one, and whoever took it has it alone.
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._peak = 0.0
        self._renewing: asyncio.Task[None] | None = None
        self._clock: asyncio.TimerHandle | None = None
        self._heads: dict[str, bytes] = {}

    async def get(self, path: str) -> Reply:
        """The whole response.

        Raises:
            OSError: no connection, or it broke; TimeoutError is one of them.
        """
        return await self._wait(self._request("GET", path) + b"\r\n", None)

    async def post(self, path: str, body: bytes, take: Take) -> Reply:
        """The response, of which `take` gets the body as it comes if the status is 200.

        Raises:
            OSError: as `get`; whatever `take` raises.
        """
        return await self._wait(self._posted(path, body), take)

    def begin_post(self, path: str, body: bytes, take: Take, ended: Ended) -> None:
        """`post` for those who do not wait; called in the event loop."""
        self._begin(self._posted(path, body), take, ended)

    def post_here(self, path: str, body: bytes, take: Take, ended: Ended) -> bool:
        """As `begin_post`, but sent by this thread, whichever it is, before this returns.

        That saves the event loop's waking, a tenth of a millisecond and more.  False: nothing was
        begun, because no connection is idle or the transport is the event loop's alone (TLS).
        """
        if self._tls is not None or not CAN_WRITE:
            return False
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return False
            if connection.idle_s < KEEP_S and connection.begin_here(
                self._posted(path, body), take, ended
            ):
                self._note_peak()
                return True
            connection.abort_soon()

    def _posted(self, path: str, body: bytes) -> bytes:
        head = self._heads.get(path)
        if head is None:
            head = self._heads[path] = self._request("POST", path) + b"Content-Length: "
        return b"%b%d\r\n\r\n%b" % (head, len(body), body)

    def _request(self, method: str, path: str) -> bytes:
        return f"{method} {self._path}{path} HTTP/1.1\r\n{self._head}".encode("latin-1")

    async def _wait(self, request: bytes, take: Take | None) -> Reply:
        done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def ended(result: Reply | BaseException) -> None:
            if done.done():  # nobody waits any more
                return
            if isinstance(result, BaseException):
                done.set_exception(result)
            else:
                done.set_result(result)

        self._begin(request, take, ended)
        return await done

    def _begin(self, request: bytes, take: Take | None, ended: Ended) -> None:
        while self._idle:
            # The one that was used last: its memory is warm, and the others may grow old.
            connection = self._idle.pop()
            if connection.idle_s < KEEP_S and connection.begin(request, take, ended):
                self._note_peak()
                return
            connection.abort()
        loop = asyncio.get_running_loop()
        self._keep(loop.create_task(self._connect_first(request, take, ended)))

    async def _connect_first(self, request: bytes, take: Take | None, ended: Ended) -> None:
        try:
            connection = await self._connect()
        except Exception as error:
            ended(error)
            return
        if not connection.begin(request, take, ended):
            ended(Broken("the server closed it before it answered"))

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if self._clock is None:
            self._look(loop)
        try:
            async with asyncio.timeout(self._connect_timeout):
                transport, connection = await loop.create_connection(
                    lambda: _Connection(self),
                    *self._address,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )
        except TimeoutError as error:
            raise Broken(
                f"no {'TLS ' if self._tls else ''}connection in {self._connect_timeout:g} s"
            ) from error
        except ssl.SSLCertVerificationError as error:
            raise _untrusted(error) from error
        except ssl.SSLError as error:
            raise Broken(
                f"found no TLS ({error.reason or error}); expected it, because --url begins with https",
                "Write http:// if the server has none.",
            ) from error
        # A name is looked up once; after that the address that took the connection is used.
        self._address = transport.get_extra_info("peername")[:2]
        return connection

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """One clock for all connections: those that answer are touched by no timer of their own."""
        for connection in self._open:
            connection.look()
        self._keep_spare(loop)
        self._clock = loop.call_later(min(1.0, self.timeout / LOOKS), self._look, loop)

    def _keep_spare(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have fresh connections for as many more answers as a Poisson stream may have at once.

        Else each peak of the load would wait for connections, since those of the last are too old.
        """
        self._peak = max(FORGET * self._peak, len(self._open) - len(self._idle))
        if self._renewing is None or self._renewing.done():
            self._renewing = loop.create_task(self._renew())

    async def _renew(self) -> None:
        """One after the other, with pauses: the event loop stays free for what is measured."""
        with contextlib.suppress(OSError):  # whoever needs a connection will see what the matter is
            while self._drop_oldest() or len(self._open) < self._wanted():
                if len(self._open) < self._wanted():
                    connection = await self._connect()
                    if self._clock is None:  # closed in the meantime
                        connection.abort()
                        return
                    self._idle.append(connection)
                await asyncio.sleep(PAUSE_S)

    def _wanted(self) -> float:
        return self._peak + 2 + 2 * math.sqrt(self._peak) if self._peak > 1 else 0.0

    def _drop_oldest(self) -> bool:
        """Whether there was one that is soon too old."""
        try:
            oldest = self._idle.pop(0)
        except IndexError:
            return False
        if oldest.idle_s < FRESH * KEEP_S:
            self._idle.insert(0, oldest)
            return False
        oldest.abort()
        return True

    def _note_peak(self) -> None:
        self._peak = max(self._peak, len(self._open) - len(self._idle))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)  # the loop itself keeps none alive
        task.add_done_callback(self._tasks.discard)

    # --- for the connections ---

    def opened(self, connection: _Connection) -> None:
        self._open.add(connection)

    def free(self, connection: _Connection) -> None:
        self._idle.append(connection)

    def closed(self, connection: _Connection) -> None:
        self._open.discard(connection)

    def close(self) -> None:
        """Close every connection that is idle; those in use close with their answer."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        while self._idle:
            self._idle.pop().abort()


def _untrusted(error: ssl.SSLCertVerificationError) -> Broken:
    said = error.verify_message.rstrip(".")
    if error.verify_code in WRONG_NAME:
        return Broken(
            f"found a certificate for another name ({said}); expected one for the name in --url",
            "Correct --url.",
        )
    return Broken(
        f"found a certificate that cannot be trusted ({said}); expected one of a known authority",
        "Set SSL_CERT_FILE to a PEM file with your own.",
    )


class _Connection(asyncio.Protocol):
    """One exchange at a time.  The methods `on_…` are called by the parser.

    All is called in the event loop but for `begin_here`, `abort_soon` and `idle_s`.  The lock keeps
    together what these and the loop must see as one: that the transport is open, and who waits.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._timeout = server.timeout
        self._lock = threading.Lock()
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        self._parser = httptools.HttpResponseParser(self)
        self._ended: Ended | None = None
        self._take: Take | None = None
        self._last = self._loop.time()
        self._forget()

    def _forget(self) -> None:
        self._head = 0
        self._framed = False
        self._began = False
        self._reply: Reply | None = None
        self._again = False
        self._location = ""
        self._kept: list[bytes] = []
        self._size = 0

    @property
    def idle_s(self) -> float:
        return self._loop.time() - self._last

    def begin(self, request: bytes, take: Take | None, ended: Ended) -> bool:
        """Send; False if the connection is closed."""
        if self._transport is None:
            return False
        self._take, self._last, self._ended = take, self._loop.time(), ended
        self._transport.write(request)
        return True

    def begin_here(self, request: bytes, take: Take | None, ended: Ended) -> bool:
        """The same from any thread, past a transport that has nothing to send."""
        with self._lock:
            transport = self._transport
            if transport is None:
                return False
            # Before anything is sent: the answer may come while this thread still sends.
            self._take, self._last, self._ended = take, self._loop.time(), ended
            try:
                sent = os.write(self._descriptor, request)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._loop.call_soon_threadsafe(self._fail, Broken(f"it takes nothing ({error})"))
                return True
            if sent < len(request):
                self._loop.call_soon_threadsafe(transport.write, request[sent:])
        return True

    def abort(self) -> None:
        if (transport := self._release()) is not None:
            transport.abort()

    def abort_soon(self) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self.abort)

    def _release(self) -> asyncio.Transport | None:
        """The transport, which nobody sends to any more; None if it is closed already."""
        self._server.closed(self)
        with self._lock:
            transport, self._transport = self._transport, None
        return transport

    def look(self) -> None:
        """End an answer that does not come."""
        if self._ended is not None and self._loop.time() - self._last > self._timeout:
            self._loop.call_soon(self._fail, TimeoutError(f"no byte for {self._timeout:g} s"))

    def _fail(self, error: BaseException) -> None:
        self.abort()
        self._end(error)

    def _end(self, result: Reply | BaseException) -> None:
        ended, self._ended = self._ended, None
        self._take = None
        if ended is not None:
            ended(result)

    # --- asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        self._descriptor = transport.get_extra_info("socket").fileno()
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._ended is None:  # a server that gives up an idle connection may say so
            self.abort()
            return
        self._last = self._loop.time()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if data.startswith(TLS_ALERT):
                self._fail(Broken(FOUND_TLS, WRITE_HTTPS))
            else:
                self._fail(Broken(f"found no HTTP/1.1 response: {error}"))
            return
        if self._reply is not None:
            self._finish(self._reply)
        elif not self._began:
            self._head += len(data)
            if self._head > LONGEST_HEAD:
                self._fail(
                    Broken(f"found a response with more than {LONGEST_HEAD:,} bytes of headers")
                )

    def _finish(self, reply: Reply) -> None:
        """After all that came: from here on another thread may use the connection."""
        ended, self._ended, self._take = self._ended, None, None
        again = self._again
        self._forget()
        if self._transport is not None:
            if again:
                self._server.free(self)
            elif (transport := self._release()) is not None:
                transport.close()
        if ended is not None:
            ended(reply)

    def connection_lost(self, error: Exception | None) -> None:
        self._release()  # the descriptor is closed after this
        if error is None and self._began and not self._framed:
            # Without a length the end of the connection is the end of the body.
            self._end(Reply(self._parser.get_status_code(), b"".join(self._kept)))
        else:
            where = "in the middle of the answer" if self._began else "before it answered"
            cause = f" ({error})" if error is not None else ""
            self._end(Broken(f"the server closed it {where}{cause}"))

    # --- the parser ---

    def on_message_begin(self) -> None:
        if self._reply is not None:  # bytes behind the response
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self._framed = True
        elif name == b"location":
            self._location = value.decode("latin-1")
        elif name == b"content-encoding" and value.lower() != b"identity":
            shown = value[:40].decode("latin-1")
            self._fail(Broken(f"found Content-Encoding {shown}, which was not accepted"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._began = status >= 200  # else "100 Continue" and the like
        if self._began and status != 200:
            self._take = None

    def on_body(self, body: bytes) -> None:
        if self._ended is None or self._reply is not None:  # failed or ended in this very piece
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
        if not self._began:
            self._forget()
        elif self._ended is not None and self._reply is None:
            self._reply = Reply(
                self._parser.get_status_code(), b"".join(self._kept), self._location
            )
            self._again = self._parser.should_keep_alive()
