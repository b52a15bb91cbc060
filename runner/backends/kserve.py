"""A system under test behind a network: any server of the Open Inference Protocol (KServe v2).

Triton, KServe, OpenVINO Model Server, MLServer and Ray Serve speak it.  As many requests are in
flight as there are workers: each thread waits for its own, over its own connections, which stay
open.  A request that is not answered is sent again, elsewhere first; it stays the same query, so
its latency counts from when LoadGen issued it.  One that stays unanswered ends the run.
"""

from __future__ import annotations

import contextlib
import ipaddress
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from runner.backends.kserve_client import (
    DATATYPES,
    Balancer,
    Client,
    Endpoint,
    Unanswered,
    connect,
    parse_url,
)
from runner.errors import BackendError, InferenceError, LostQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runner.benchmarks.base import Benchmark, Tensor
    from runner.datasets import Dataset

NETWORK_SUT = "Network SUT"
WORKERS = 8
"""Requests in flight for each URL, where nobody says."""
_PAUSES_S = (0.05, 0.2, 0.5, 1.0)


class KServe:
    """A model on one or several servers that speak the Open Inference Protocol.

    Args:
        url: http://host:port, https://…, grpc://host:port or grpcs://…; several are balanced.
        model: the model's name on the servers; the benchmark's name if None.
        version: the model's version; the server's choice if "".
        timeout: seconds until a request counts as unanswered.
        retries: how often it is then sent again.
        binary: "on": tensors as raw bytes; "off": as JSON numbers; "auto": bytes where the
            server takes them.  gRPC is always binary.
        headers: a file with "Name: value" lines that are sent along: authorization, a host name
            for the ingress.

    Attributes:
        warnings: what should be known about the result, read after the run.
    """

    def __init__(
        self,
        url: str | Sequence[str] = (),
        model: str | None = None,
        version: str | float = "",
        timeout: float = 30.0,
        retries: int = 2,
        binary: str | bool = "auto",
        headers: str | None = None,
    ) -> None:
        self._endpoints = endpoints_of(url)
        if not timeout > 0 or retries < 0:
            raise BackendError(
                f"found timeout={timeout}, retries={retries}; expected more than 0 seconds and "
                "0 or more."
            )
        word = (
            {True: "on", False: "off"}.get(binary, binary) if isinstance(binary, bool) else binary
        )
        if word not in ("on", "off", "auto"):
            raise BackendError(f"found binary={binary!r}; expected on, off or auto.")
        self._model = model
        self._version = str(version)
        self._timeout = float(timeout)
        self._retries = retries
        self._wanted_binary = word
        self._binary = word != "off"
        self._headers = _read_headers(headers)
        self._balancer = Balancer(len(self._endpoints))
        self._own = threading.local()
        self._made: list[Client] = []
        self._lock = threading.Lock()
        self._repeated = 0
        self._name = ""
        self._outputs: tuple[str, ...] = ()
        self._dtypes: tuple[Any, ...] = ()
        self._described = ""
        self.framework = "KServe v2"

    @classmethod
    def preflight(cls, options: Mapping[str, Any]) -> None:
        """See that the client library is there and every server answers."""
        backend = cls(**options)
        backend._verify_installed()
        try:
            for number in range(len(backend._endpoints)):
                backend._server(number)
        finally:
            backend.close()

    def _verify_installed(self) -> None:
        if not any(endpoint.grpc for endpoint in self._endpoints):
            return
        try:
            import tritonclient.grpc  # noqa: F401
        except ImportError as error:
            raise BackendError(
                f"found no gRPC client of the Open Inference Protocol ({error}); expected "
                'tritonclient: pip install "assay[kserve]". http:// needs nothing.'
            ) from error

    @property
    def warnings(self) -> list[str]:
        found = []
        for endpoint, failures in zip(self._endpoints, self._balancer.failures, strict=True):
            if failures:
                found.append(
                    f"requests that {endpoint.url} left unanswered: {failures:,}; each was sent again "
                    "and answered, and its latency counts from when LoadGen issued it"
                )
        return found

    def sut_name(self) -> str:
        """What the system under test calls itself; asked over the network, as the rules want."""
        server = self._server(0)
        told = " ".join(str(server.get(key) or "") for key in ("name", "version")).strip()
        return f"{NETWORK_SUT}: {told or 'unnamed server'}, model {self._name}"

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        self._verify_installed()
        self._name = self._model or benchmark.name
        if model is not None and model.parent in benchmark.models.values():
            self._name = f"{self._name}-{model.stem}"  # one graph of several
        self._outputs = tuple(tensor.name for tensor in benchmark.outputs)
        self._dtypes = tuple(np.dtype(tensor.dtype) for tensor in benchmark.outputs)
        servers, signatures = [], []
        for number, endpoint in enumerate(self._endpoints):
            server = self._server(number)
            found = self._metadata(number)
            _verify_signature(endpoint.url, self._name, found, benchmark)
            servers.append(
                " ".join(str(server.get(key) or "") for key in ("name", "version")).strip()
            )
            signatures.append(
                (
                    ", ".join(str(v) for v in found.get("versions") or []),
                    str(found.get("platform") or ""),
                )
            )
        if len(set(signatures)) > 1 or len(set(servers)) > 1:
            raise BackendError(
                f"found servers that differ: {servers} with {self._name} {signatures}; expected "
                "the same server and model at every --url."
            )
        if not all(endpoint.grpc for endpoint in self._endpoints):
            self._choose_encoding(benchmark)
        self._describe(servers[0], *signatures[0])

    def _describe(self, server: str, versions: str, platform: str) -> None:
        kinds = sorted({"gRPC" if e.grpc else "HTTP" for e in self._endpoints})
        model = f"model {self._name}"
        if versions:
            model += f" version {self._version or versions}"
        if platform:
            model += f" ({platform})"
        count = len(self._endpoints)
        self.framework = (
            f"KServe v2 over {' and '.join(kinds)}, {'binary' if self._binary else 'JSON'} tensors, "
            f"{count} server{'s' if count > 1 else ''} {server or 'of unknown name'}, {model}"
        )

    def _choose_encoding(self, benchmark: Benchmark) -> None:
        """Whether the servers take raw bytes, found by asking for one answer."""
        probe = {
            tensor.name: np.zeros([n or 1 for n in tensor.shape], tensor.dtype)
            for tensor in benchmark.inputs
        }
        for number, endpoint in enumerate(self._endpoints):
            if endpoint.grpc:
                continue
            try:
                self._ask(number, probe)
            except InferenceError as error:
                if self._wanted_binary != "auto" or not self._binary:
                    raise BackendError(f"{endpoint.url}: {error}") from error
                self._binary = False
                try:
                    self._ask(number, probe)
                except (InferenceError, Unanswered) as second:
                    raise BackendError(
                        f"{endpoint.url}: found no answer to a sample of zeros, neither with "
                        f"binary tensors ({error}) nor with JSON ({second})."
                    ) from second
            except Unanswered as error:
                raise BackendError(f"{endpoint.url}: {error}") from error

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        began = time.monotonic()
        tried: list[int] = []
        while True:
            number = self._balancer.take(tried)
            try:
                outputs = self._ask(number, feed)
            except Unanswered as error:
                self._balancer.give_back(number, failed=True)
                self._forget(number)
                tried.append(number)
                if len(tried) > self._retries:
                    raise LostQuery.of(
                        f"no answer from {self._endpoints[number].url} after {len(tried)} "
                        f"attempts in {time.monotonic() - began:.3g} s ({error}).",
                        indices,
                    ) from error
                if len(set(tried)) == len(self._endpoints):
                    # Everybody failed: what is overloaded or restarting needs a moment.
                    round = len(tried) // len(self._endpoints) - 1
                    time.sleep(_PAUSES_S[min(round, len(_PAUSES_S) - 1)])
            except BaseException:
                self._balancer.give_back(number)
                raise
            else:
                self._balancer.give_back(number)
                self._verify(outputs, len(indices))
                return outputs

    def _verify(self, outputs: Sequence[NDArray[Any]], rows: int) -> None:
        for name, dtype, array in zip(self._outputs, self._dtypes, outputs, strict=True):
            if array.dtype != dtype or array.ndim == 0 or len(array) != rows:
                raise InferenceError(
                    f"the server's output {name!r} has type {array.dtype} and shape "
                    f"{list(array.shape)}; expected {dtype} and {rows} rows."
                )

    def _ask(self, number: int, feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        return self._client(number).infer(
            self._name, self._version, feed, self._outputs, self._binary
        )

    def _client(self, number: int) -> Client:
        """This thread's connection to an endpoint."""
        own: dict[int, Client] | None = getattr(self._own, "clients", None)
        if own is None:
            own = self._own.clients = {}
        client = own.get(number)
        if client is None:
            client = own[number] = connect(self._endpoints[number], self._timeout, self._headers)
            with self._lock:
                self._made.append(client)
        return client

    def _forget(self, number: int) -> None:
        """Drop a connection that failed: its answer may still come, and is another's then."""
        client = self._own.clients.pop(number)
        with self._lock:
            self._made.remove(client)
        with contextlib.suppress(Exception):
            client.close()

    def _server(self, number: int) -> dict[str, Any]:
        url = self._endpoints[number].url
        try:
            found = self._client(number).server()
        except (Unanswered, InferenceError) as error:
            raise BackendError(
                f"found no server of the Open Inference Protocol at {url} ({error}); expected "
                "one that answers v2 requests. Start it, or correct --url."
            ) from error
        return found if isinstance(found, dict) else {}

    def _metadata(self, number: int) -> dict[str, Any]:
        url, client = self._endpoints[number].url, self._client(number)
        try:
            if not client.ready(self._name, self._version):
                raise InferenceError("it is not ready")
            return client.model(self._name, self._version)
        except (Unanswered, InferenceError) as error:
            raise BackendError(
                f"{url}: found no usable model {self._name!r} ({error}); expected one that is "
                "loaded. Name another with --backend-option model=NAME."
            ) from error

    def close(self) -> None:
        with self._lock:
            made, self._made = self._made, []
        for client in made:
            with contextlib.suppress(Exception):
                client.close()


def endpoints_of(url: str | Sequence[str]) -> tuple[Endpoint, ...]:
    """The endpoints that the option `url` names.

    Raises:
        BackendError: none, or one that is no URL of a server.
    """
    urls = [part.strip() for part in url.split(",")] if isinstance(url, str) else list(url)
    if not any(urls):
        raise BackendError("found no --url; expected http://host:port of a server, or several.")
    return tuple(parse_url(one) for one in dict.fromkeys(urls) if one)


def is_remote(options: Mapping[str, Any]) -> bool:
    """Whether any server may be another machine than this one."""
    return not all(_loopback(endpoint.host) for endpoint in endpoints_of(options.get("url", ())))


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def network_fields(options: Mapping[str, Any], workers: int) -> dict[str, str]:
    """What can be known of the network, in the words of a network division's description."""
    from importlib.metadata import PackageNotFoundError, version
    from platform import release, system

    from runner.gpu import UNKNOWN

    endpoints = endpoints_of(options.get("url", ()))
    kinds = sorted({"gRPC (HTTP/2)" if e.grpc else "HTTP/1.1" for e in endpoints})
    tls = " with TLS" if any(e.secure for e in endpoints) else ""
    client = ""
    if any(e.grpc for e in endpoints):
        with contextlib.suppress(PackageNotFoundError):
            client = f", tritonclient {version('tritonclient')}"
    return {
        "is_network": "true",
        "network_type": UNKNOWN,
        "network_media": UNKNOWN,
        "network_rate": UNKNOWN,
        "nic_loadgen": UNKNOWN,
        "number_nic_loadgen": UNKNOWN,
        "net_software_stack_loadgen": f"{system()} {release()} TCP/IP{client}",
        "network_protocol": f"Open Inference Protocol (KServe v2) over {', '.join(kinds)}{tls}",
        "number_connections": str(workers * len(endpoints)),
        "nic_sut": UNKNOWN,
        "number_nic_sut": UNKNOWN,
        "net_software_stack_sut": UNKNOWN,
        "network_topology": UNKNOWN,
    }


def _read_headers(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BackendError(f"the headers file {path} cannot be read: {error}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        if line.strip() and (not colon or not name.strip()):
            raise BackendError(f"{path}:{number}: expected 'Name: value'.")
        if line.strip():
            found[name.strip()] = value.strip()
    return found


def _verify_signature(url: str, name: str, found: dict[str, Any], benchmark: Benchmark) -> None:
    for what, asked in (("inputs", benchmark.inputs), ("outputs", benchmark.outputs)):
        told = {str(t.get("name")): t for t in found.get(what) or []}
        if not told:
            continue  # a server may leave it out
        for tensor in asked:
            have = told.get(tensor.name)
            if have is None or not _fits(have, tensor):
                seen = {n: [t.get("datatype"), t.get("shape")] for n, t in told.items()}
                raise BackendError(
                    f"{url}: model {name!r} has {what} {seen}; expected {tensor.name!r} of type "
                    f"{DATATYPES.get(tensor.dtype, tensor.dtype)} and shape {list(tensor.shape)} "
                    f"(None: the batch). Serve a model of {benchmark.name}'s signature."
                )


def _fits(have: Mapping[str, Any], tensor: Tensor) -> bool:
    shape = [int(n) for n in have.get("shape") or []]
    if have.get("datatype") not in (None, "", DATATYPES.get(tensor.dtype, tensor.dtype)):
        return False
    if not shape:
        return True
    return len(shape) == len(tensor.shape) and all(
        want is None or size < 0 or size == want
        for size, want in zip(shape, tensor.shape, strict=True)
    )
