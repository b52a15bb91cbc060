"""Language models behind an OpenAI-compatible endpoint: vLLM, TensorRT-LLM, SGLang, llama.cpp, ….

Answers are streamed, all from one event loop (see `runner.tokens`).  Nothing is sent twice: a
query that fails, whatever the cause, ends the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from runner.backends.base import Answer, Listener
from runner.backends.kserve import endpoints_of
from runner.backends.openai_stream import Stream, refusal
from runner.errors import BackendError, InferenceError, LostQuery

if TYPE_CHECKING:
    from runner.backends.openai_http import Reply, Server
    from runner.benchmarks.base import Benchmark
    from runner.datasets import Dataset
    from runner.serve.process import Served

KEY = "OPENAI_API_KEY"
"""The only place where an API key is looked for."""
_PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
_STARTED = re.compile(rb"^process_start_time_seconds(?:\{[^}]*\})? +(\S+)", re.MULTILINE)
_ERRNO = re.compile(r"\[Errno (\d+)\] ")
_REFUSED = (400, 404, 422)


class OpenAI:
    """A model on one or several OpenAI-compatible servers.

    Args:
        url: http://host:port or https://…, with or without /v1; several are balanced.  None for
            a benchmark with an embedded server: one is started.
        model: the model's name on the servers; may be left out where they serve only one.
        api: "completions" or "chat"; the benchmark's choice if None.
        timeout: seconds without a byte of an answer until the query counts as lost.
        connect_timeout: seconds to connect.
        ids: where an answer's token ids come from: "server" (return_token_ids, as vLLM), "tokenizer"
            (the benchmark's, over the text); "auto": from the server where it gives them.
        tokenizer: a tokenizer.json to use in place of the benchmark's.
        extra: a JSON file of further request parameters.

    Attributes:
        framework: what executes, as far as the servers say.
        warnings: what should be known about the result, read after the run.
    """

    def __init__(
        self,
        url: str | Sequence[str] = (),
        model: str | None = None,
        api: str | None = None,
        timeout: float = 120.0,
        connect_timeout: float = 10.0,
        ids: str = "auto",
        tokenizer: str | None = None,
        extra: str | None = None,
    ) -> None:
        self._bases = bases_of(url) if url else []
        if not (timeout > 0 and connect_timeout > 0):
            raise BackendError(
                f"found timeout={timeout:g}, connect_timeout={connect_timeout:g}; expected more than "
                "0 seconds."
            )
        for name, value, known in (
            ("api", api, (None, *_PATHS)),
            ("ids", ids, ("auto", "server", "tokenizer")),
        ):
            if value not in known:
                listed = ", ".join(str(k) for k in known if k)
                raise BackendError(f"found {name}={value!r}; expected one of {listed}.")
        self._model = model
        self._api = api
        self._timeout, self._connect_timeout = float(timeout), float(connect_timeout)
        self._ids = ids
        self._tokenizer_file = tokenizer
        self._extra = _read_extra(extra)
        self._served: Served | None = None
        self._servers: list[Server] = []
        self._flying: list[set[_Asked]] = []
        self._fingerprints: dict[int, str] = {}
        self._started: list[float | None] = []
        self._tokenize: Any = None
        self._differing, self._largest = 0, 0
        self._notes: list[str] = []
        self.framework = "OpenAI-compatible server"

    @classmethod
    def preflight(cls, options: Mapping[str, Any]) -> None:
        """See that the client library is there and every server that was named answers."""
        backend = cls(**options)
        _verify_installed()

        async def look() -> None:
            async with backend._connected() as servers:
                for server in servers:
                    await backend._models(server)

        asyncio.run(look())

    # --- before the run ---

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        """Find the model on every server, ask for one answer, and prepare what samples will ask."""
        _verify_installed()
        if benchmark.generation is None:
            raise BackendError(
                f"found benchmark {benchmark.name} with backend openai; expected a language "
                "benchmark. Choose another --backend."
            )
        self._benchmark, self._generation = benchmark, benchmark.generation
        self._dataset: Any = dataset
        self._chosen = self._api or self._generation.api
        self._accuracy = False
        if self._tokenizer_file is not None:
            from runner.datasets.tokenizing import open_tokenizer

            self._tokenize = open_tokenizer(Path(self._tokenizer_file))
        elif self._generation.tokenizer is not None and self._ids != "server":
            self._tokenize = self._generation.tokenizer(getattr(dataset, "place", None))
        if not self._bases:
            if self._generation.server is None:
                raise BackendError(
                    "found no --url; expected http://host:port of an OpenAI-compatible server."
                )
            from runner.serve.process import Served

            self._served = Served(self._generation.server, model)
            self._bases = [self._served.url]
        self._flying = [set() for _ in self._bases]
        asyncio.run(self._discover())

    async def _discover(self) -> None:
        async with self._connected() as servers:
            found = [await self._models(server) for server in servers]
            self._name = self._choose(found)
            self._verify_models(found)
            self._started = [await self._start_time(server) for server in servers]
            versions = [await self._version(server) for server in servers]
            if len(set(versions)) > 1:
                raise BackendError(
                    f"found servers that differ: {', '.join(versions)}; expected the same server and "
                    "version at every --url."
                )
            more = dict(self._generation.more)
            ids = {"return_token_ids": True} if self._ids != "tokenizer" else {}
            self._optional: dict[str, Any] = {**more, **ids}
            self._servers = servers
            for number in range(len(servers)):
                await self._try(number)
            self._servers = []
        self._source = self._choose_source()
        count = len(self._bases)
        self.framework = (
            f"OpenAI-compatible API over HTTP ({self._chosen}, streamed), {count} "
            f"server{'s' if count > 1 else ''} {versions[0]}, model {self._name}; tokens counted "
            f"{self.counted_by}"
        )

    @property
    def counted_by(self) -> str:
        """Who counted the tokens of an answer, in words."""
        if self._source == "server":
            return "by the server (its token ids, compared with its usage where it states one)"
        return "by the tokenizer (over the text of the answer)"

    async def _try(self, number: int) -> None:
        """One answer before anything counts; drops parameters that this server refuses."""
        while True:
            try:
                probe = _Asked(self, number, 0, None)
                path, request = _PATHS[self._chosen], self.request(0)
                self._probe = probe.read(
                    await _result(self._servers[number].post(path, request, probe.take))
                )
                return
            except _Refused as error:
                named = [name for name in self._optional if name in str(error)]
                dropped = named or list(self._optional)
                if not dropped:
                    raise BackendError(f"{self._bases[number]}: {error}") from error
                for name in dropped:
                    del self._optional[name]
                    if name != "return_token_ids":
                        self._notes.append(
                            f"{self._bases[number]} refused {name}={self._generation.more[name]}; "
                            "it was left out of every request"
                        )
            except InferenceError as error:
                raise BackendError(f"{self._bases[number]}: {error}") from error

    def _choose_source(self) -> str:
        if self._ids != "tokenizer" and self._probe.tokens:
            return "server"
        if self._ids == "server":
            raise BackendError(
                "found no token ids in the answer; expected them, since ids=server: a server that "
                "knows return_token_ids (vLLM 0.10.2 and later), or ids=tokenizer."
            )
        if self._tokenize is None:
            raise BackendError(
                "found no token ids in the answer and no tokenizer; expected one of them, because "
                "LoadGen's log holds token ids. Give --backend-option tokenizer=tokenizer.json."
            )
        return "tokenizer"

    def _choose(self, found: Sequence[Sequence[Mapping[str, Any]]]) -> str:
        names = [[str(model.get("id")) for model in models] for models in found]
        if self._model is not None:
            for base, known in zip(self._bases, names, strict=True):
                if self._model not in known:
                    raise BackendError(
                        f"{base}: found models {', '.join(known) or '(none)'}; expected {self._model!r}. "
                        "Correct --backend-option model, or serve that model."
                    )
            return self._model
        common = set(names[0]).intersection(*names)
        if len(common) != 1:
            listed = "; ".join(", ".join(known) or "(none)" for known in names)
            raise BackendError(
                f"found models {listed}; expected one model at every --url. Choose one with "
                "--backend-option model=NAME."
            )
        return common.pop()

    def _verify_models(self, found: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        entries = [next(m for m in models if m.get("id") == self._name) for models in found]
        same = {json.dumps([m.get("root"), m.get("max_model_len")]) for m in entries}
        if len(same) > 1:
            raise BackendError(
                f"found models {self._name!r} that differ (root, max_model_len): "
                f"{', '.join(sorted(same))}; expected the same model at every --url."
            )
        longest, most = entries[0].get("max_model_len"), self._generation.max_tokens
        if isinstance(longest, int) and longest < most:
            raise BackendError(
                f"found max_model_len {longest:,} of model {self._name!r}; expected more than the "
                f"{most:,} tokens that an answer of {self._benchmark.name} may have."
            )
        known = self._generation.model_names
        said = f"{self._name} {entries[0].get('root') or ''}".lower()
        if known and not any(name in said for name in known):
            self._notes.append(
                f"the servers call their model {self._name!r}; expected a name with "
                f"{' or '.join(known)} for {self._benchmark.name}"
            )

    async def _get(self, server: Server, path: str) -> Reply:
        try:
            return await server.get(path)
        except OSError as error:
            if fix := getattr(error, "fix", ""):
                raise BackendError(f"{server.base}: {_line(error)}. {fix}") from error
            raise BackendError(
                f"found no server at {server.base}{path} ({_line(error)}); expected an "
                "OpenAI-compatible one. Start it, or correct --url."
            ) from error

    async def _models(self, server: Server) -> list[dict[str, Any]]:
        reply = await self._get(server, "/v1/models")
        status, body, base = reply.status, reply.body, server.base
        if status in (401, 403):
            raise BackendError(f"{base}: found {_said(reply)}; expected 200. {_key_hint()}")
        try:
            if status != 200:
                raise ValueError(_said(reply))
            models = json.loads(body)["data"]
            return [dict(model) for model in models]
        except (ValueError, KeyError, TypeError) as error:
            raise BackendError(
                f"{base}: found no list of models at /v1/models ({_line(error)}); expected an "
                "OpenAI-compatible server. Correct --url."
            ) from error

    async def _start_time(self, server: Server) -> float | None:
        """When the server's process began; None where it does not say (GET /metrics)."""
        with contextlib.suppress(BackendError, ValueError):
            reply = await self._get(server, "/metrics")
            match = _STARTED.search(reply.body) if reply.status == 200 else None
            return float(match[1]) if match else None
        return None

    async def _version(self, server: Server) -> str:
        with contextlib.suppress(BackendError, ValueError, AttributeError):
            reply = await self._get(server, "/version")
            if reply.status == 200:
                return f"version {json.loads(reply.body).get('version')}"
        return "of unknown version"

    def request(self, index: int) -> bytes:
        """The body of the request for a sample."""
        prompt, how = self._dataset.prompt(index), self._generation
        body: dict[str, Any] = {"model": self._name}
        if self._chosen == "chat":
            said = prompt.messages or (
                (("user", prompt.text),) if prompt.text is not None else None
            )
            if said is None:
                raise BackendError(
                    f"sample {index}: found token ids alone; expected text for chat completions. "
                    "Use --backend-option api=completions."
                )
            body["messages"] = [{"role": role, "content": text} for role, text in said]
        else:
            if prompt.tokens is None and prompt.text is None:
                raise BackendError(
                    f"sample {index}: found a conversation alone; expected text or token ids for "
                    "completions. Use --backend-option api=chat."
                )
            body["prompt"] = list(prompt.tokens) if prompt.tokens is not None else prompt.text
        body["max_tokens"] = self.max_tokens
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
        body.update(how.sampling)
        if self._accuracy:
            body.update(how.accuracy)
        body.update(self._optional)
        body.update(self._extra)
        return json.dumps(body, ensure_ascii=False).encode()

    @property
    def max_tokens(self) -> int:
        """The most tokens that an answer may have."""
        how = self._generation
        most = how.accuracy.get("max_tokens", how.max_tokens) if self._accuracy else how.max_tokens
        return int(self._extra.get("max_tokens", most))

    # --- the run ---

    async def open(self, *, accuracy: bool = False) -> None:
        """Connect for a run, from the event loop that will generate."""
        self._accuracy = accuracy
        self._servers = self._make_servers()

    def _make_servers(self) -> list[Server]:
        from runner.backends.openai_http import Server

        return [
            Server(base, _headers(), connect_timeout=self._connect_timeout, timeout=self._timeout)
            for base in self._bases
        ]

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[list[Server]]:
        """The servers outside of a run: they are asked from another event loop than in it."""
        servers = self._make_servers()
        try:
            yield servers
        finally:
            for server in servers:
                server.close()

    def ask(self, request: bytes, index: int, listener: Listener) -> None:
        """Begin an answer, streamed; several servers are balanced by answers in work."""
        asked = self._balanced(index, listener)
        server = self._servers[asked.number]
        server.begin_post(_PATHS[self._chosen], request, asked.take, asked.ended)

    def ask_here(self, request: bytes, index: int, listener: Listener) -> bool:
        """`ask` from any thread, where a connection is idle."""
        asked = self._balanced(index, listener)
        server = self._servers[asked.number]
        if server.post_here(_PATHS[self._chosen], request, asked.take, asked.ended):
            return True
        self._flying[asked.number].discard(asked)
        return False

    def _balanced(self, index: int, listener: Listener) -> _Asked:
        # Sets, because two threads count: what they do with one set is one step for the interpreter.
        number = min(range(len(self._flying)), key=lambda k: len(self._flying[k]))
        asked = _Asked(self, number, index, listener)
        self._flying[number].add(asked)
        return asked

    def _answer(self, stream: Stream) -> Answer:
        usage = stream.usage
        if self._source == "server":
            tokens: Sequence[int] = stream.tokens
            if usage is not None and usage != len(tokens):
                raise InferenceError(
                    f"found {usage:,} completion tokens in the server's usage; expected "
                    f"{len(tokens):,}, the token ids that it sent."
                )
        else:
            tokens = list(self._tokenize("".join(stream.text)))
            if usage is not None:
                self._compare(usage, len(tokens), stream.chunks)
        if len(tokens) < 2:
            # LoadGen would divide by the tokens after the first: see docs/measuring-llms.md.
            raise InferenceError(
                f"found an answer of {len(tokens)} token{'s' * (len(tokens) != 1)} "
                f"(finish_reason {stream.finish}); expected 2 or more, which a time per output token "
                "needs."
            )
        return Answer(tokens)

    def _compare(self, usage: int, counted: int, chunks: int) -> None:
        """The server's count beside the tokenizer's: the end mark and other splits may differ."""
        off = abs(usage - counted)
        if usage < chunks or off > max(2, 0.1 * counted):
            raise InferenceError(
                f"found {usage:,} completion tokens in the server's usage; the tokenizer counts "
                f"{counted:,} in the answer's text, which came in {chunks:,} chunks. Is it the "
                "tokenizer of this model?"
            )
        if off > 1:
            self._differing += 1
            self._largest = max(self._largest, off)

    async def shut(self) -> None:
        """After the last answer: look whether the servers are still those of the beginning."""
        for server in self._servers:
            server.close()
        async with self._connected() as servers:
            for server, began in zip(servers, self._started, strict=True):
                now = await self._start_time(server)
                if began is not None and now != began:
                    raise InferenceError(
                        f"{server.base}: found a server that was restarted during the run (its process "
                        "began at another time than before); expected all answers from one. Run again."
                    )

    @property
    def warnings(self) -> list[str]:
        found = list(self._notes)
        if self._differing:
            found.append(
                f"in {self._differing:,} answers the server's usage differs from the tokenizer's count "
                f"by 2 tokens or more (at most {self._largest}); the tokenizer's count is used"
            )
        return found

    @property
    def sut_name(self) -> Any:
        """What a network division's SUT calls itself; None where the server is our own."""
        return None if self._served is not None else self._named

    def _named(self) -> str:
        from runner.backends.kserve import NETWORK_SUT

        async def ask() -> str:
            async with self._connected() as (server, *_):
                await self._models(server)
                return await self._version(server)

        return f"{NETWORK_SUT}: OpenAI-compatible server {asyncio.run(ask())}, model {self._name}"

    def close(self) -> None:
        """End the embedded server, if one was started."""
        if self._served is not None:
            self._served.stop()
            self._served = None


class _Asked:
    """One answer on its way; `take` and `ended` are called by its connection."""

    __slots__ = ("_backend", "_began", "_index", "_listener", "_most", "_seen", "_stream", "number")

    def __init__(self, backend: OpenAI, number: int, index: int, listener: Listener | None) -> None:
        self._backend, self.number, self._index, self._listener = backend, number, index, listener
        self._stream, self._began = Stream(), time.monotonic()
        self._most, self._seen = backend.max_tokens, False

    def take(self, data: bytes) -> None:
        stream, most = self._stream, self._most
        if stream.feed(data) and not self._seen:
            self._seen = True
            if self._listener is not None:
                self._listener.first(stream.tokens[:1])
        if len(stream.tokens) > most or stream.chunks > most + 16:
            raise InferenceError(
                f"the answer goes on past {most:,} tokens (max_tokens); expected the server to end it "
                "there."
            )

    def ended(self, result: Reply | BaseException) -> None:
        backend, listener = self._backend, self._listener
        assert listener is not None
        backend._flying[self.number].discard(self)
        try:
            answer = backend._answer(self.read(result))
        except InferenceError as error:
            text = f"{backend._bases[self.number]}: {error}"
            listener.lost(LostQuery.of(text, [self._index]))
        except BaseException as error:
            listener.lost(error)
        else:
            listener.last(answer)

    def read(self, result: Reply | BaseException) -> Stream:
        """The whole answer.

        Raises:
            InferenceError: there is none.
        """
        stream, timeout = self._stream, self._backend._timeout
        if isinstance(result, TimeoutError):
            raise InferenceError(
                f"found no byte for {timeout:g} s (after {time.monotonic() - self._began:.1f} s and "
                f"{stream.chunks:,} chunks). Raise --backend-option timeout=SECONDS if the server is "
                "really so slow."
            ) from result
        if isinstance(result, OSError):
            raise InferenceError(
                f"the connection broke after {stream.chunks:,} chunks ({_line(result)}); expected a "
                "whole answer. Look into the server's log."
            ) from result
        if isinstance(result, BaseException):
            raise result
        if result.status != 200:
            _refuse(result)
        stream.verify()
        if stream.fingerprint is not None:
            known = self._backend._fingerprints.setdefault(self.number, stream.fingerprint)
            if known != stream.fingerprint:
                raise InferenceError(
                    f"found system_fingerprint {stream.fingerprint}; expected {known}, as before: the "
                    "server was restarted or its model changed during the run. Run again."
                )
        return stream


async def _result(reply: Awaitable[Reply]) -> Reply | BaseException:
    try:
        return await reply
    except (OSError, InferenceError) as error:
        return error


class _Refused(InferenceError):
    """The server did not take the request as it was put."""


def _refuse(reply: Reply) -> NoReturn:
    hint = {
        401: f" {_key_hint()}",
        403: f" {_key_hint()}",
        429: " Lower the load or --workers: a refused query is a failed query.",
    }.get(reply.status, " Look into the server's log." if reply.status >= 500 else "")
    kind = _Refused if reply.status in _REFUSED else InferenceError
    raise kind(f"found {_said(reply)}; expected 200.{hint}")


def _key_hint() -> str:
    if os.environ.get(KEY):
        return f"Correct {KEY} in the environment: the server does not accept it."
    return f"Set {KEY} in the environment."


def _said(reply: Reply) -> str:
    """A response with an error, on one line."""
    if reply.location:
        return f"HTTP {reply.status} to {reply.location[:200]}, which is not followed"
    return f"HTTP {reply.status} ({refusal(reply.body)})"


def bases_of(url: str | Sequence[str]) -> list[str]:
    """The servers that the option `url` names, without /v1.

    Raises:
        BackendError: none, or one that is not a URL of an HTTP server.
    """
    found = []
    for endpoint in endpoints_of(url):
        if endpoint.grpc:
            raise BackendError(f"found --url {endpoint.url!r}; expected http:// or https://.")
        if not (endpoint.url.isascii() and endpoint.url.isprintable()) or " " in endpoint.url:
            raise BackendError(
                f"found --url {endpoint.url!r}; expected ASCII: xn--… for a name, %XX in a path."
            )
        found.append(endpoint.url.rstrip("/").removesuffix("/v1").rstrip("/"))
    return list(dict.fromkeys(found))


def network_fields(options: Mapping[str, Any], workers: int) -> dict[str, str]:
    """What can be known of the network, in the words of a network division's description."""
    from importlib.metadata import version

    from runner.backends import kserve

    tls = (
        " with TLS" if any(b.startswith("https") for b in bases_of(options.get("url", ()))) else ""
    )
    known = kserve.network_fields(options, 1)
    return known | {
        "net_software_stack_loadgen": f"{known['net_software_stack_loadgen']}, httptools {version('httptools')}",
        "network_protocol": f"OpenAI-compatible API, server-sent events over HTTP/1.1{tls}",
        "number_connections": f"{workers} in use at most",
    }


def _verify_installed() -> None:
    try:
        import httptools  # noqa: F401
    except ImportError as error:
        raise BackendError(
            f'found no httptools ({error}); expected it for backend openai: pip install "assay[openai]".'
        ) from error


def _headers() -> dict[str, str]:
    # Compressed events would wait for one another in the compressor.
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    key = os.environ.get(KEY)
    if key:
        if not (key.isascii() and key.isprintable()):
            raise BackendError(f"found characters in {KEY} that no HTTP header can have.")
        headers["Authorization"] = f"Bearer {key}"
    return headers


def _read_extra(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BackendError(f"extra={path}: cannot be read as JSON ({error}).") from error
    if not isinstance(found, dict):
        raise BackendError(
            f"extra={path}: found no JSON object; expected request parameters by name."
        )
    return found


def _line(error: object) -> str:
    if isinstance(error, OSError) and error.errno:
        return str(
            error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno)
        )
    text = str(error).strip() or type(error).__name__
    if text.startswith("Multiple exceptions"):  # one for each address of a name
        numbers = map(int, _ERRNO.findall(text))
        return ", ".join(dict.fromkeys(map(os.strerror, numbers)))
    return _ERRNO.sub("", text).splitlines()[0][:300]
