"""An OpenAI-compatible server that does what its script says: times to the millisecond, and faults.

    python -m tests.runner.openai_server '{"first_ms": 20, "token_ms": 5}'

prints its URL.  A prompt "N …" is answered by N tokens: the ids 10, 11, … and the end mark 2 last.
It ends with its standard input.  Nothing of the client's code is used here.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

END = 2
PR_SET_TIMERSLACK = 29
SO_TIMESTAMPNS = 35
AWAKE_S = 0.0003
HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Script:
    """What the server does.

    `first_ms` after a request has a place, then every `token_ms`; `capacity`: answers at once, more
    wait for a place.  `fault` happens to every request after the first `sound` ones that were
    answered.  `ids`, `usage`: whether the answer has them; `models`: names that are served.
    `answers`: a JSON file with a list of token ids for each sample, in place of "N …": a prompt then
    ends with the sample's number.  `burst`: tokens in a chunk.

    Times are kept to within 0.1 ms where the machine has a processor free: deadlines are absolute, and the
    loop is awake before each (see `_Awake`).  A request is there when the kernel has it (see `_Stamped`),
    not when this process woke.  `many`: more than 1,000 connections, which select() cannot have.
    GET /stamps says when each answer was requested, and its first and last tokens were sent, in
    seconds, and how many it has.
    """

    first_ms: float = 0.0
    token_ms: float = 0.0
    capacity: int = 1_000_000
    fault: str = ""
    sound: int = 0
    ids: bool = True
    usage: bool = True
    models: tuple[str, ...] = ("scripted",)
    max_model_len: int = 4096
    refuses: tuple[str, ...] = ()
    key: str = ""
    answers: str = ""
    burst: int = 1
    many: bool = False


class _Stamped(socket.socket):
    """Knows when the kernel had what was read last: a processor that slept wakes this process later."""

    arrived_ns = 0

    def recv(self, size: int, flags: int = 0) -> bytes:
        data, more, _, _ = self.recvmsg(size, 64, flags)
        for level, kind, value in more:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                seconds, rest = struct.unpack("qq", value)
                self.arrived_ns = seconds * 10**9 + rest
        return data


class _Listening(socket.socket):
    def accept(self) -> tuple[socket.socket, Any]:
        connected, address = super().accept()
        stamped = _Stamped(fileno=connected.detach())
        if sys.platform == "linux":
            stamped.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        return stamped, address


class _Connection(asyncio.Protocol):
    def __init__(self, server: _Server) -> None:
        self.server, self.buffer, self.came = server, b"", 0.0
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.socket = transport.get_extra_info("socket")._sock

    def arrived(self) -> float:
        """When what was just read came, by the loop's clock."""
        now, wall = self.server.loop.time(), time.time_ns()
        late = (wall - self.socket.arrived_ns) / 1e9
        # Not where the kernel stamps nothing, or its clock was just set.
        return now - late if 0 <= late < 0.1 else now

    def data_received(self, data: bytes) -> None:
        self.came = self.arrived()
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].decode("latin-1")
            lines = head.split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines[1:])
            }
            length = int(headers.get("content-length", 0))
            if len(self.buffer) < end + 4 + length:
                return
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            self.server.take(self, lines[0].split()[1], headers, body)

    def whole(self, status: int, content: Any, kind: str = "application/json") -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.transport.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )

    def event(self, payload: bytes) -> None:
        data = b"data: " + payload + b"\n\n"
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))


class _Server:
    def __init__(self, script: Script) -> None:
        self.script, self.loop = script, asyncio.get_running_loop()
        self.answered = self.working = self.events = 0
        self.waiting: deque[Any] = deque()
        self.stamps: list[tuple[float, float, float, int]] = []
        self.began = time.time()
        self.answers = json.loads(Path(script.answers).read_text()) if script.answers else None

    def take(self, to: _Connection, path: str, headers: dict[str, str], body: bytes) -> None:
        script = self.script
        if script.key and headers.get("authorization") != f"Bearer {script.key}":
            to.whole(401, {"error": {"message": "no such key"}})
        elif path == "/v1/models":
            models = [
                {"id": name, "root": name, "max_model_len": script.max_model_len}
                for name in script.models
            ]
            to.whole(200, {"data": models})
        elif path == "/metrics":
            # A process manager may have started it again behind the same address.
            later = 60 * (script.fault == "restarted" and self.answered > script.sound)
            text = f"process_start_time_seconds {self.began + later}\n"
            to.whole(200, text.encode(), "text/plain")
        elif path == "/stamps":
            to.whole(200, self.stamps)
        elif path == "/version":
            to.whole(200, {"version": "scripted"})
        elif path in ("/v1/completions", "/v1/chat/completions"):
            self.ask(to, json.loads(body), chat="chat" in path)
        else:
            to.whole(404, {"error": {"message": f"no {path}"}})

    def ask(self, to: _Connection, body: dict[str, Any], *, chat: bool) -> None:
        for name in self.script.refuses:
            if name in body:
                to.whole(400, {"error": {"message": f"unknown parameter {name}"}})
                return
        self.answered += 1
        fault = self.script.fault if self.answered > self.script.sound else ""
        if fault in ("429", "500"):
            to.whole(int(fault), {"error": {"message": f"scripted {fault}"}})
        elif fault != "silent":
            prompt = body["messages"][-1]["content"] if chat else body["prompt"]
            words = prompt.split() if isinstance(prompt, str) else prompt
            if self.answers is not None:
                tokens = self.answers[int(words[-1])]
            else:
                tokens = [*range(10, 9 + int(words[0])), END]
            answer = _Answer(self, to, body, tokens, fault, chat)
            if self.working < self.script.capacity:
                answer.begin(to.came)
            else:
                self.waiting.append(answer)

    def ended(self) -> None:
        self.working -= 1
        if self.waiting:
            self.waiting.popleft().begin(self.loop.time())


class _Answer:
    def __init__(
        self, server: _Server, to: _Connection, body: Any, tokens: list[int], fault: str, chat: bool
    ) -> None:
        self.server, self.to, self.tokens, self.fault, self.chat = server, to, tokens, fault, chat
        self.ids = server.script.ids and body.get("return_token_ids", False)
        self.usage = server.script.usage and body["stream_options"]["include_usage"]
        self.place = 0
        self.asked = self.first = to.came

    def begin(self, since: float) -> None:
        server = self.server
        server.working += 1
        self.at = since + server.script.first_ms / 1000
        self.to.transport.write(HELLO)
        if self.chat:
            self.to.event(b'{"choices": [{"index": 0, "delta": {"role": "assistant"}}]}')
        server.loop.call_at(self.at, self.step)

    def step(self) -> None:
        to, server, fault = self.to, self.server, self.fault
        if to.transport.is_closing():
            server.ended()
            return
        last = len(self.tokens) - 1
        if self.place >= last // 2 and fault in ("cut", "malformed", "error", "killed"):
            if fault == "cut":
                to.transport.close()
            elif fault == "killed":
                os._exit(9)
            elif fault == "malformed":
                to.event(b'{"choices": [{"index": 0, "te')
            else:
                to.event(b'{"error": {"message": "scripted error", "code": 500}}')
            server.ended()
            return
        if fault == "empty":
            self.tokens, self.place = [], 0
            self.end()
            return
        burst = server.script.burst
        self.write(self.tokens[self.place : self.place + burst] if fault != "endless" else [10])
        self.place += burst
        if self.place > last and fault != "endless":
            self.end()
        else:
            self.at += server.script.token_ms / 1000
            server.loop.call_at(self.at, self.step)

    def write(self, tokens: list[int]) -> None:
        self.server.events += 1
        if not self.place:
            self.first = self.server.loop.time()
        text = "".join("" if token == END else f" {token}" for token in tokens)
        ids = b', "token_ids": [%b]' % ", ".join(map(str, tokens)).encode() if self.ids else b""
        said = b'"delta": {"content": "%b"}' if self.chat else b'"text": "%b"'
        self.to.event(
            b'{"choices": [{"index": 0, '
            + said % text.encode()
            + ids
            + b', "finish_reason": null}]}'
        )

    def end(self) -> None:
        to, count = self.to, len(self.tokens) + 3 * (self.fault == "usage")
        now = self.server.loop.time()
        self.server.stamps.append((self.asked, self.first, now, len(self.tokens)))
        if self.fault != "unfinished":
            to.event(
                b'{"choices": [{"index": 0, "text": "", "delta": {}, "finish_reason": "stop"}]}'
            )
        if self.usage:
            to.event(b'{"choices": [], "usage": {"completion_tokens": %d}}' % count)
        if self.fault != "no-done":
            to.event(b"[DONE]")
        to.transport.write(b"0\r\n\r\n")
        self.server.ended()


class _Awake(selectors.SelectSelector):
    """Awake for the last part of each wait: a processor that slept takes up to a millisecond to begin.

    select(), because epoll counts whole milliseconds.
    """

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        end = time.monotonic() + timeout
        if timeout > AWAKE_S and (ready := super().select(timeout - AWAKE_S)):
            return ready
        while not (ready := super().select(0)) and time.monotonic() < end:
            pass
        return ready


async def _serve(script: Script) -> None:
    server = _Server(script)
    address = _Listening()
    address.bind(("127.0.0.1", 0))
    listening = await asyncio.get_running_loop().create_server(
        lambda: _Connection(server), sock=address, backlog=4096
    )
    sys.stdout.write(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await listening.serve_forever()


@contextlib.contextmanager
def first_in_line() -> Iterator[None]:
    """Real-time priority for what is started within, where this process may have it.

    Milliseconds can be measured then while other processes are busy.
    """
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(20))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameter)


class Scripted:
    """The server as a process; `with Scripted(first_ms=20) as url:`."""

    def __init__(self, **script: Any) -> None:
        self._script = Script(**script)

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.runner.openai_server", json.dumps(asdict(self._script))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().strip()
        assert self.url.startswith("http"), "the scripted server did not start"
        return self

    def stamps(self) -> list[tuple[float, float, float, int]]:
        """When each answer was asked for, its first and its last token sent (s), and its tokens."""
        with urllib.request.urlopen(f"{self.url}/stamps", timeout=60) as answer:
            return [tuple(stamp) for stamp in json.load(answer)]

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def _until_eof() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_until_eof, daemon=True).start()
    chosen = json.loads(sys.argv[1])
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in chosen.items()}
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    script = Script(**given)
    gc.disable()  # a collection takes milliseconds
    selector = None if script.many else _Awake()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(_serve(script))
