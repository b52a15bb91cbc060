"""One server of the Open Inference Protocol (KServe v2), over HTTP or gRPC.

Two kinds of failure leave here: `Unanswered`, where the same request may be sent again, and
InferenceError, where the server said no or answered with something unusable.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlsplit

import msgspec

from runner.errors import BackendError, InferenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEMES = ("http", "https", "grpc", "grpcs")
BUSY = (429, 502, 503, 504)
"""HTTP statuses of a server that is there and cannot answer now."""
PASSING = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED")
"""The same of gRPC."""
DATATYPES = {
    "bool": "BOOL", "float16": "FP16", "float32": "FP32", "float64": "FP64", "int8": "INT8",
    "int16": "INT16", "int32": "INT32", "int64": "INT64", "uint8": "UINT8", "uint16": "UINT16",
    "uint32": "UINT32", "uint64": "UINT64",
}  # fmt: skip
NUMPY = {told: name for name, told in DATATYPES.items()}
_JSON = {"Content-Type": "application/json"}
_BINARY = {"Content-Type": "application/octet-stream"}
LENGTH = "Inference-Header-Content-Length"
REST_S = 1.0
"""How long an endpoint that failed is passed over while there are others."""


class Unanswered(Exception):
    """No answer came: no connection, a time-out, or a server that is too busy."""


@dataclass(frozen=True)
class Endpoint:
    """A URL, taken apart."""

    url: str
    scheme: str
    place: str

    @property
    def grpc(self) -> bool:
        """Whether it is spoken to by gRPC."""
        return self.scheme.startswith("grpc")

    @property
    def secure(self) -> bool:
        """Whether through TLS."""
        return self.scheme.endswith("s")

    @property
    def host(self) -> str:
        """The host's name or address."""
        return urlsplit(self.url).hostname or ""


def parse_url(url: str) -> Endpoint:
    """A URL as an endpoint.

    Raises:
        BackendError: no scheme of `SCHEMES`, no host, or a user in it.
    """
    parts = urlsplit(url)
    sound = parts.scheme in SCHEMES and parts.hostname and not parts.query and "@" not in url
    port = None
    try:
        port = parts.port
    except ValueError:
        sound = False
    if not sound or (parts.scheme.startswith("grpc") and (port is None or parts.path.strip("/"))):
        raise BackendError(
            f"found --url {url!r}; expected http://host:port, https://host/path or "
            "grpc://host:port (grpcs with TLS), without user and query."
        )
    return Endpoint(url, parts.scheme, parts.netloc + parts.path.rstrip("/"))


class Client(Protocol):
    """A connection to one server, for one thread."""

    def server(self) -> dict[str, Any]:
        """The server's metadata."""
        ...

    def model(self, name: str, version: str) -> dict[str, Any]:
        """A model's metadata."""
        ...

    def ready(self, name: str, version: str) -> bool:
        """Whether the model can be asked."""
        ...

    def infer(
        self,
        name: str,
        version: str,
        feed: Mapping[str, NDArray[Any]],
        outputs: Sequence[str],
        binary: bool,
    ) -> list[NDArray[Any]]:
        """One inference.

        Raises:
            Unanswered: it may be asked again.
            InferenceError: the server refused, or its answer cannot be read.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def connect(endpoint: Endpoint, timeout_s: float, headers: Mapping[str, str]) -> Client:
    """A client of this endpoint; the connection is made when it is first used."""
    if endpoint.grpc:
        return _Grpc(endpoint, timeout_s, headers)
    return _Http(endpoint, timeout_s, headers)


class _Http:
    """The standard library's connection, and the protocol's binary tensors.

    tritonclient's HTTP connection runs on gevent, whose greenlets move the C stack of their
    thread away while they wait.  Where LoadGen issues a query, its frames are on that stack, and
    its logging thread writes to them meanwhile: logs came out mangled.  So this is done here.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float, headers: Mapping[str, str]) -> None:
        self._headers = dict(headers)
        parts = urlsplit(endpoint.url)
        self._base = parts.path.rstrip("/")
        kind = http.client.HTTPSConnection if endpoint.secure else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        self._heads: dict[tuple[Any, ...], bytes] = {}

    def server(self) -> dict[str, Any]:
        return self._read("v2")

    def model(self, name: str, version: str) -> dict[str, Any]:
        return self._read(_model_path(name, version))

    def ready(self, name: str, version: str) -> bool:
        try:
            self._send("GET", _model_path(name, version) + "/ready", None, {})
        except InferenceError:
            return False
        return True

    def infer(
        self,
        name: str,
        version: str,
        feed: Mapping[str, NDArray[Any]],
        outputs: Sequence[str],
        binary: bool,
    ) -> list[NDArray[Any]]:
        path = _model_path(name, version) + "/infer"
        if not binary:
            body = msgspec.json.encode(_request(feed, outputs, binary=False))
            content, told = self._send("POST", path, body, _JSON)
        else:
            # What a request says of its tensors is the same for all of one size.
            kind = tuple((key, array.dtype, array.shape) for key, array in feed.items())
            head = self._heads.get(kind)
            if head is None:
                head = msgspec.json.encode(_request(feed, outputs, binary=True))
                self._heads[kind] = head
            body = b"".join([head, *(array.tobytes() for array in feed.values())])
            content, told = self._send("POST", path, body, {**_BINARY, LENGTH: str(len(head))})
        try:
            return _unpack(content, int(told) if told else len(content), outputs)
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InferenceError(f"the answer cannot be read: {_line(error)}") from error

    def _read(self, path: str) -> dict[str, Any]:
        content, _ = self._send("GET", path, None, {})
        try:
            found = json.loads(content)
        except ValueError as error:
            raise InferenceError(f"the answer to {path} is no JSON: {_line(error)}") from error
        if not isinstance(found, dict):
            raise InferenceError(f"the answer to {path} is no JSON object.")
        return found

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[bytes, str | None]:
        """The body of the answer, and how much of it is JSON."""
        connection = self._connection
        used = connection.sock is not None
        try:
            while True:
                try:
                    connection.request(
                        method, f"{self._base}/{path}", body, {**headers, **self._headers}
                    )
                    answer = connection.getresponse()
                    break
                except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                    # A server may close what was idle; the request then never reached it.
                    connection.close()
                    if not used:
                        raise
                    used = False
            content = answer.read()
        except TimeoutError as error:
            raise Unanswered("no answer in time") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unanswered(_line(error)) from error
        if answer.status in BUSY:
            raise Unanswered(f"HTTP status {answer.status}: {_refusal(content)}")
        if answer.status != 200:
            raise InferenceError(f"the server answered {answer.status}: {_refusal(content)}")
        return content, answer.getheader(LENGTH)

    def close(self) -> None:
        self._connection.close()


def _request(
    feed: Mapping[str, NDArray[Any]], outputs: Sequence[str], *, binary: bool
) -> dict[str, Any]:
    """The JSON part of a request."""
    inputs = []
    for name, array in feed.items():
        tensor: dict[str, Any] = {"name": name, "shape": list(array.shape)}
        tensor["datatype"] = _datatype(array)
        if binary:
            tensor["parameters"] = {"binary_data_size": array.nbytes}
        else:
            tensor["data"] = array.ravel().tolist()
        inputs.append(tensor)
    wanted: list[dict[str, Any]] = [{"name": name} for name in outputs]
    if binary:
        wanted = [{**tensor, "parameters": {"binary_data": True}} for tensor in wanted]
    return {"inputs": inputs, "outputs": wanted}


def _unpack(content: bytes, length: int, outputs: Sequence[str]) -> list[NDArray[Any]]:
    """The outputs of an answer whose first `length` bytes are JSON."""
    import numpy as np

    found: dict[str, NDArray[Any]] = {}
    for tensor in msgspec.json.decode(content[:length])["outputs"]:
        dtype = NUMPY[tensor["datatype"]]
        size = (tensor.get("parameters") or {}).get("binary_data_size")
        if size is None:
            array = np.array(tensor["data"], dtype)
        else:
            if not 0 <= size <= len(content) - length:
                raise ValueError(f"{size} bytes of {tensor['name']!r} were announced, not sent")
            array = np.frombuffer(content[length : length + size], dtype)
            length += size
        found[tensor["name"]] = array.reshape(tensor["shape"])
    absent = [name for name in outputs if name not in found]
    if absent:
        raise InferenceError(f"the answer has no output {absent[0]!r}.")
    return [found[name] for name in outputs]


def _model_path(name: str, version: str) -> str:
    path = f"v2/models/{quote(name, safe='')}"
    return f"{path}/versions/{quote(version, safe='')}" if version else path


def _refusal(content: bytes) -> str:
    """What an answer that is none says about it."""
    text = content.decode("utf-8", "replace")
    with contextlib.suppress(ValueError, KeyError, TypeError):
        text = str(json.loads(text)["error"])
    return _line(text or "no text")


class _Grpc:
    def __init__(self, endpoint: Endpoint, timeout_s: float, headers: Mapping[str, str]) -> None:
        import tritonclient.grpc as library

        self._library = library
        self._timeout = timeout_s
        self._headers = {name.lower(): value for name, value in headers.items()} or None
        self._client: Any = library.InferenceServerClient(
            endpoint.place,
            ssl=endpoint.secure,
            channel_args=[
                ("grpc.max_send_message_length", -1),
                ("grpc.max_receive_message_length", -1),
                # Else the channels of all threads would share one connection.
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_retries", 0),
                ("grpc.max_reconnect_backoff_ms", 1000),
            ],
        )

    def _options(self) -> dict[str, Any]:
        return {"headers": self._headers, "client_timeout": self._timeout}

    def server(self) -> dict[str, Any]:
        with _grpc_errors():
            found: dict[str, Any] = self._client.get_server_metadata(
                as_json=True, **self._options()
            )
            return found

    def model(self, name: str, version: str) -> dict[str, Any]:
        with _grpc_errors():
            found: dict[str, Any] = self._client.get_model_metadata(
                name, version, as_json=True, **self._options()
            )
            return found

    def ready(self, name: str, version: str) -> bool:
        with _grpc_errors():
            return bool(self._client.is_model_ready(name, version, **self._options()))

    def infer(
        self,
        name: str,
        version: str,
        feed: Mapping[str, NDArray[Any]],
        outputs: Sequence[str],
        binary: bool,
    ) -> list[NDArray[Any]]:
        inputs = []
        for key, array in feed.items():
            given = self._library.InferInput(key, list(array.shape), _datatype(array))
            given.set_data_from_numpy(array)
            inputs.append(given)
        wanted = [self._library.InferRequestedOutput(key) for key in outputs]
        with _grpc_errors():
            result = self._client.infer(
                name, inputs, model_version=version, outputs=wanted, **self._options()
            )
        with _reading():
            return _arrays(result, outputs)

    def close(self) -> None:
        self._client.close()


def _datatype(array: NDArray[Any]) -> str:
    found = DATATYPES.get(array.dtype.name)
    if found is None:
        raise InferenceError(f"the protocol has no data type for {array.dtype} arrays.")
    return found


def _arrays(result: Any, outputs: Sequence[str]) -> list[NDArray[Any]]:
    arrays = [result.as_numpy(name) for name in outputs]
    absent = [name for name, array in zip(outputs, arrays, strict=True) if array is None]
    if absent:
        raise InferenceError(f"the answer has no output {absent[0]!r}.")
    return arrays


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    from tritonclient.utils import InferenceServerException

    try:
        yield
    except (InferenceServerException, ValueError, KeyError, TypeError, IndexError) as error:
        raise InferenceError(f"the answer cannot be read: {_line(error)}") from error


@contextlib.contextmanager
def _grpc_errors() -> Iterator[None]:
    from tritonclient.utils import InferenceServerException

    try:
        yield
    except InferenceServerException as error:
        status = str(error.status() or "").removeprefix("StatusCode.")
        text = _line(error.message() or error)
        if status in PASSING:
            raise Unanswered(f"{status}: {text}") from error
        raise InferenceError(f"the server answered {status or 'an error'}: {text}") from error


def _line(error: object) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]


class Balancer:
    """Which endpoint the next request goes to: the one with the fewest requests in flight.

    Attributes:
        failures: for each endpoint, how many requests it left unanswered.
    """

    def __init__(self, count: int) -> None:
        self.failures = [0] * count
        self._flying = [0] * count
        self._resting = [0.0] * count
        self._turn = itertools.count()
        self._lock = threading.Lock()

    def take(self, tried: Collection[int]) -> int:
        """An endpoint, preferably none that was tried or failed a moment ago."""
        count = len(self._flying)
        if count == 1:
            return 0
        with self._lock:
            now, first = time.monotonic(), next(self._turn)
            # Of equals the next in turn, so that idle servers share the work too.
            best = min(
                range(count),
                key=lambda k: (
                    k in tried,
                    self._resting[k] > now,
                    self._flying[k],
                    (k - first) % count,
                ),
            )
            self._flying[best] += 1
            return best

    def give_back(self, number: int, *, failed: bool = False) -> None:
        """The request to this endpoint has ended."""
        if not failed and len(self._flying) == 1:
            return
        with self._lock:
            self._flying[number] -= 1
            if failed:
                self.failures[number] += 1
                self._resting[number] = time.monotonic() + REST_S
