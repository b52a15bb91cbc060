"""An OpenAI-compatible server for the embedded story teller: chat and text completions, streamed.

As in vLLM, `return_token_ids` adds the ids of each chunk's tokens, and the last chunk before
`[DONE]` has the usage where `stream_options.include_usage` is set.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from runner.datasets.stories import LONGEST, vocabulary
from runner.datasets.tales import piece
from runner.datasets.text import END, START
from runner.serve.engine import Engine
from runner.serve.model import Teller

NAME = "stories"
LARGEST_BODY = 2**20  # bytes


class _Bad(Exception):
    """A request that cannot be served; the text goes to the client."""


class Server:
    """The application's handlers.

    Args:
        model: the ONNX file, its vocabulary beside it.
        slots: stories told at once; more wait.
    """

    def __init__(self, model: Path, slots: int) -> None:
        self._words = vocabulary(model)
        self._engine = Engine(Teller(model, slots))
        self._began = time.time()
        self._fingerprint = f"fp_{uuid.uuid4().hex[:12]}"

    def application(self) -> web.Application:
        """Routes, and the engine that runs beside them."""
        application = web.Application(client_max_size=LARGEST_BODY)
        application.add_routes(
            [
                web.get("/v1/models", self.models),
                web.get("/health", self.health),
                web.get("/version", self.version),
                web.get("/metrics", self.metrics),
                web.post("/v1/completions", self.completions),
                web.post("/v1/chat/completions", self.completions),
            ]
        )
        application.cleanup_ctx.append(self._run)
        return application

    async def _run(self, application: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(self._engine.run())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def models(self, request: web.Request) -> web.Response:
        model = {"id": NAME, "object": "model", "owned_by": "assay", "max_model_len": LONGEST}
        return web.json_response({"object": "list", "data": [model]})

    async def health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": f"assay {_version()}"})

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=f"process_start_time_seconds {self._began:.3f}\n")

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """Both endpoints: they differ in the request's prompt and in the form of the answer."""
        chat = request.path.startswith("/v1/chat")
        try:
            body = await request.json()
            if not isinstance(body, dict):
                raise _Bad("the body is not a JSON object")
            prompt, most = self._read(body, chat)
        except (_Bad, ValueError, TypeError, KeyError, RecursionError) as error:
            return _error(400, str(error) or type(error).__name__)
        answer = _Answer(self, chat, body, prompt)
        tokens = self._engine.tell(prompt, most, ignore_end=bool(body.get("ignore_eos")))
        if not body.get("stream"):
            return web.json_response(answer.whole([token async for token in tokens]))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async with contextlib.aclosing(tokens):  # type: ignore[type-var]
            with contextlib.suppress(ConnectionError):
                for data in answer.opening():
                    await response.write(data)
                async for token in tokens:
                    await response.write(answer.chunk(token))
                for data in answer.closing():
                    await response.write(data)
                await response.write_eof()
        return response

    def _read(self, body: dict[str, Any], chat: bool) -> tuple[list[int], int]:
        """The prompt's ids and the most tokens of the answer."""
        if body.get("model") not in (None, NAME):
            raise _Bad(f"the model {body['model']!r} does not exist")
        if body.get("n", 1) != 1:
            raise _Bad("n must be 1")
        if chat:
            prompt: Any = " ".join(str(message["content"]) for message in body["messages"])
        else:
            prompt = body["prompt"]
        if isinstance(prompt, str):
            ids = [START, *self._words.encode_text(prompt)[:-1]]
        elif isinstance(prompt, list) and all(type(token) is int for token in prompt):
            ids = prompt
        else:
            raise _Bad("prompt must be a text or a list of token ids")
        if not ids or not all(0 <= token < len(self._words) for token in ids):
            raise _Bad("prompt is empty or has a token that the model does not know")
        room = LONGEST - len(ids)
        if room < 1:
            raise _Bad(f"the prompt has {len(ids)} tokens; the model has places for {LONGEST}")
        most = body.get("max_completion_tokens", body.get("max_tokens", room))
        if type(most) is not int or most < 1:
            raise _Bad("max_tokens must be a whole number above 0")
        return ids, min(most, room)

    def words(self, token: int) -> str:
        """The word of a token; nothing for marks."""
        return "" if token <= END else self._words.words[token]

    @property
    def fingerprint(self) -> str:
        """Changes with every start."""
        return self._fingerprint


class _Answer:
    """The JSON of one answer, in both endpoints' forms."""

    def __init__(self, server: Server, chat: bool, body: dict[str, Any], prompt: list[int]) -> None:
        self._server, self._chat, self._prompt = server, chat, prompt
        self._ids = bool(body.get("return_token_ids"))
        self._usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self._count, self._last = 0, -1
        form = "chat.completion" if chat else "text_completion"
        self._base = {
            "id": f"{'chat' if chat else ''}cmpl-{uuid.uuid4().hex}",
            "object": f"{form}.chunk" if chat else form,
            "created": int(time.time()),
            "model": NAME,
            "system_fingerprint": server.fingerprint,
        }
        self._head = json.dumps(self._base)[:-1]

    def opening(self) -> list[bytes]:
        """Chat begins with the role alone."""
        if not self._chat:
            return []
        delta = {"role": "assistant", "content": ""}
        return [self._event([{"index": 0, "delta": delta, "finish_reason": None}])]

    def chunk(self, token: int) -> bytes:
        """One token."""
        text = self._text(token)
        choice: dict[str, Any] = {"index": 0, "finish_reason": None}
        choice |= {"delta": {"content": text}} if self._chat else {"text": text}
        if self._ids:
            choice["token_ids"] = [token]
        self._count, self._last = self._count + 1, token
        return self._event([choice])

    def closing(self) -> list[bytes]:
        """Why it ended, the usage, and the mark of the end."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": self._finish(self._last)}
        choice |= {"delta": dict[str, str]()} if self._chat else {"text": ""}
        events = [self._event([choice])]
        if self._usage:
            events.append(self._event([], self._used(self._count)))
        return [*events, b"data: [DONE]\n\n"]

    def whole(self, tokens: Sequence[int]) -> dict[str, Any]:
        """The answer in one piece."""
        text = "".join(self._text(token, number) for number, token in enumerate(tokens))
        choice: dict[str, Any] = {"index": 0, "finish_reason": self._finish(tokens[-1])}
        choice |= (
            {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        )
        if self._ids:
            choice["token_ids"] = list(tokens)
        return {**self._base, "choices": [choice], "usage": self._used(len(tokens))}

    def _text(self, token: int, number: int | None = None) -> str:
        word = self._server.words(token)
        first = (self._count if number is None else number) == 0
        return piece(word, first=first) if word else ""

    @staticmethod
    def _finish(last: int) -> str:
        return "stop" if last == END else "length"

    def _used(self, count: int) -> dict[str, int]:
        given = len(self._prompt)
        return {
            "prompt_tokens": given,
            "completion_tokens": count,
            "total_tokens": given + count,
        }

    def _event(self, choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> bytes:
        told = "" if usage is None else f', "usage": {json.dumps(usage)}'
        return f'data: {self._head}, "choices": {json.dumps(choices)}{told}}}\n\n'.encode()


def _error(status: int, text: str) -> web.Response:
    error = {"message": text, "type": "invalid_request_error", "code": status}
    return web.json_response({"error": error}, status=status)


async def serve(model: Path, host: str, port: int, slots: int, ready: Any) -> None:
    """Serve until cancelled; `ready` is called with the URL once connections are accepted.

    Raises:
        OSError: the address cannot be used.
    """
    runner = web.AppRunner(Server(model, slots).application(), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=4096)
        await site.start()
        bound = runner.addresses[0]
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        ready(f"http://{name}:{bound[1]}")
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("assay")
    except PackageNotFoundError:
        return "of a source tree"
