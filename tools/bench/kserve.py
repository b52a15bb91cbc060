"""What LoadGen and the network backend add to a bare client loop: python -m tools.bench.kserve [URL …].

Without URLs it starts the test servers, HTTP and gRPC.  Rounds alternate between the bare loop and
LoadGen, since absolute numbers move with the load of the machine.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np

from runner import Job, RunSettings, measure
from runner.benchmarks.digits import DIGITS
from runner.datasets.digits import INPUT, Digits

ROUNDS, SECONDS, WORKERS, BATCH = 5, 2.0, 4, 32


def bare_http(url: str, batch: int) -> Callable[[], Any]:
    """One request over one connection, the least that Python can do."""
    x = Digits().load(list(range(batch)))[INPUT]
    head = json.dumps(
        {
            "inputs": [
                {
                    "name": INPUT,
                    "shape": list(x.shape),
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": x.nbytes},
                }
            ],
            "outputs": [{"name": "logits", "parameters": {"binary_data": True}}],
        }
    ).encode()

    def plain() -> bytes:
        tensor = {"name": INPUT, "shape": list(x.shape), "datatype": "FP32"}
        return msgspec.json.encode(
            {"inputs": [{**tensor, "data": x.ravel().tolist()}], "outputs": [{"name": "logits"}]}
        )

    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    name = "Inference-Header-Content-Length"

    def ask(binary: bool = True) -> Any:
        headers = {"Content-Type": "application/octet-stream", name: str(len(head))}
        body = head + x.tobytes()
        if not binary:
            headers, body = {"Content-Type": "application/json"}, plain()
        connection.request("POST", "/v2/models/digits/infer", body, headers)
        answer = connection.getresponse()
        content, told = answer.read(), answer.getheader(name)
        if answer.status != 200:
            raise ValueError(content)
        if told is None:
            return json.loads(content)
        json.loads(content[: int(told)])
        return np.frombuffer(content[int(told) :], np.float32)

    try:
        ask()
    except ValueError:
        connection.close()
        return lambda: ask(binary=False)
    return ask


def bare_grpc(url: str, batch: int) -> Callable[[], Any]:
    """The same with tritonclient."""
    import tritonclient.grpc as library

    x = Digits().load(list(range(batch)))[INPUT]
    client = library.InferenceServerClient(urlsplit(url).netloc)
    wanted = [library.InferRequestedOutput("logits")]

    def ask() -> Any:
        given = library.InferInput(INPUT, list(x.shape), "FP32")
        given.set_data_from_numpy(x)
        return client.infer("digits", [given], outputs=wanted).as_numpy("logits")

    return ask


def loop(ask: Callable[[], Any], end: float) -> list[float]:
    """Seconds that each request took, one after the other."""
    taken = []
    while (start := time.perf_counter()) < end:
        ask()
        taken.append(time.perf_counter() - start)
    return taken


def bare_latency(url: str) -> float:
    """Median of a bare loop, in us."""
    ask = (bare_grpc if url.startswith("grpc") else bare_http)(url, 1)
    loop(ask, time.perf_counter() + 0.2)
    return statistics.median(loop(ask, time.perf_counter() + SECONDS)) * 1e6


def bare_rate(url: str) -> float:
    """Samples a second of a few threads, each with its loop."""
    counts = [0] * WORKERS
    end = time.perf_counter() + SECONDS

    def work(own: int) -> None:
        ask = (bare_grpc if url.startswith("grpc") else bare_http)(url, BATCH)
        counts[own] = len(loop(ask, end)) * BATCH

    threads = [threading.Thread(target=work, args=(k,)) for k in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS


def loadgen(url: str, scenario: str) -> Any:
    """A run's detail log."""
    settings = RunSettings("digits", scenario, min_duration_ms=int(SECONDS * 1000))
    job = Job(
        "digits",
        settings=settings,
        backend="kserve",
        workers=WORKERS,
        batch_size=BATCH,
        backend_options={"url": url},
        early_stop=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        return measure(job, Path(folder) / "run")


def main() -> None:
    """Print a line for each URL and quantity."""
    urls, processes = sys.argv[1:], []
    if not urls:
        command = [sys.executable, "-m", "tests.runner.oip_server"]
        command += ["--model", str(DIGITS.models["fp32"])]
        for scheme, more in (("http", []), ("grpc", ["--grpc"])):
            one = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True)
            assert one.stdout is not None
            processes.append(one)
            urls.append(f"{scheme}://127.0.0.1:{int(one.stdout.readline())}")
    for url in urls:
        latencies, rates = [], []
        for _ in range(ROUNDS):
            run = loadgen(url, "SingleStream")
            mine = run.detail["result_50.00_percentile_latency_ns"] / 1000
            latencies.append((bare_latency(url), mine))
            rates.append((bare_rate(url), loadgen(url, "Offline").metric))
        sys.stdout.write(f"{run.framework}\n")
        for what, pairs, unit in (
            ("SingleStream, median latency", latencies, "us"),
            (f"Offline, {WORKERS} in flight, batch {BATCH}", rates, "samples/s"),
        ):
            bare, through = (statistics.median(p[k] for p in pairs) for k in (0, 1))
            ratio = statistics.median(b / a for a, b in pairs)
            sys.stdout.write(
                f"  {what}: bare {bare:,.0f} {unit}, LoadGen {through:,.0f} {unit}, "
                f"ratio {ratio:.2f} (rounds {', '.join(f'{b / a:.2f}' for a, b in pairs)})\n"
            )
    for one in processes:
        one.kill()


if __name__ == "__main__":
    main()
