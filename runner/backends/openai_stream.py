"""What an OpenAI-compatible server streams: events cut out of bytes, and read.

A chunk is not a token: it may hold several, a part of one, or none (the role, the usage).  So a
token's arrival is told by text or token ids in a chunk, and tokens are counted elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from runner.errors import InferenceError

LONGEST_EVENT = 16 * 2**20
"""Bytes; more without a blank line is not a stream of events."""
GOOD_ENDS = ("stop", "length")
"""How an answer may end; anything else (abort, content_filter, tool_calls) is not an answer."""


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None


class _Usage(msgspec.Struct):
    completion_tokens: int | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None
    message: str | None = None
    system_fingerprint: str | None = None


_decode = msgspec.json.Decoder(_Event).decode


class Stream:
    """One answer as it comes.

    Attributes:
        text: pieces of text, reasoning included, in order.
        tokens: ids, where the server gives them; `chunks_with_ids` is how many chunks had some.
        chunks: chunks that had text or ids.
        usage: completion tokens as the server counted them; None until it says so.
        finish: why the answer ended; None until it did.
        fingerprint: the server's system_fingerprint; None where it gives none.
        done: whether `[DONE]` came.
    """

    __slots__ = (
        "_buffer",
        "chunks",
        "chunks_with_ids",
        "done",
        "fingerprint",
        "finish",
        "text",
        "tokens",
        "usage",
    )  # fmt: skip

    def __init__(self) -> None:
        self._buffer = b""
        self.text: list[str] = []
        self.tokens: list[int] = []
        self.chunks = 0
        self.chunks_with_ids = 0
        self.usage: int | None = None
        self.finish: str | None = None
        self.fingerprint: str | None = None
        self.done = False

    def feed(self, data: bytes) -> bool:
        """Take bytes as they come, cut anywhere; whether there was any part of the answer in them.

        Raises:
            InferenceError: an event that cannot be read, or one that reports an error.
        """
        before = self.chunks
        for payload in self._payloads(data):
            if payload == b"[DONE]":
                self.done = True
            else:
                self._take(payload)
        return self.chunks > before

    def _payloads(self, data: bytes) -> Iterator[bytes]:
        """The data of each event that is whole, by the rules of server-sent events."""
        buffer = self._buffer + data if self._buffer else data
        if b"\r" in buffer:
            # A trailing CR may be half of a CRLF: it waits for the next bytes.
            held = b"\r" if buffer.endswith(b"\r") else b""
            buffer = buffer[: len(buffer) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            events = buffer.split(b"\n\n")
            self._buffer = events.pop() + held
        else:
            events = buffer.split(b"\n\n")
            self._buffer = events.pop()
        if len(self._buffer) > LONGEST_EVENT:
            raise InferenceError(
                f"found {len(self._buffer):,} bytes without the blank line that ends an event; "
                "expected server-sent events. Is --url that of an OpenAI-compatible server?"
            )
        for event in events:
            if event.startswith(b"data:") and b"\n" not in event:
                yield event[5:].strip()
                continue
            lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
            if lines:
                yield b"\n".join(lines)

    def _take(self, payload: bytes) -> None:
        try:
            event = _decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InferenceError(
                f"found a malformed chunk ({error}): {_shown(payload)}; expected a JSON object."
            ) from error
        if event.error is not None or (event.message is not None and not event.choices):
            found = event.error if event.error is not None else event.message
            raise InferenceError(f"the server reported an error in the stream: {_said(found)}.")
        if event.usage is not None and event.usage.completion_tokens is not None:
            self.usage = event.usage.completion_tokens
        if event.system_fingerprint:
            self.fingerprint = event.system_fingerprint
        for choice in event.choices:
            if choice.index != 0:
                raise InferenceError(
                    f"found a chunk of choice {choice.index}; expected one answer, choice 0."
                )
            self._add(choice)

    def _add(self, choice: _Choice) -> None:
        if self.finish is not None and (choice.text or choice.token_ids):
            raise InferenceError("found more of the answer after its finish_reason.")
        found = False
        delta = choice.delta
        if delta is not None:
            for text in (delta.reasoning_content or delta.reasoning, delta.content):
                if text:
                    self.text.append(text)
                    found = True
        if choice.text:
            self.text.append(choice.text)
            found = True
        if choice.token_ids:
            self.tokens += choice.token_ids
            self.chunks_with_ids += 1
            found = True
        self.chunks += found
        if choice.finish_reason is not None:
            self.finish = choice.finish_reason

    def verify(self) -> None:
        """See that the answer came to its end.

        Raises:
            InferenceError: it was cut, or ended for a reason that leaves no answer.
        """
        if not self.done:
            raise InferenceError(
                f"the stream was cut after {self.chunks:,} chunks: found no [DONE] at its end; expected "
                "it. Look into the log of the server, or of a proxy before it."
            )
        if self.finish not in GOOD_ENDS:
            raise InferenceError(
                f"found finish_reason {self.finish or 'absent'}; expected {' or '.join(GOOD_ENDS)}."
            )


def refusal(body: bytes) -> str:
    """What an answer with an HTTP error says, on one line."""
    try:
        found = msgspec.json.decode(body)
        if isinstance(found, dict):
            found = found.get("error") or found.get("message") or found.get("detail") or found
        return _said(found)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _shown(body)


def _said(found: Any) -> str:
    if isinstance(found, dict):
        found = found.get("message") or found
    return " ".join(str(found).split())[:300]


def _shown(payload: bytes) -> str:
    return " ".join(payload[:200].decode("utf-8", "backslashreplace").split()) or "(no text)"
