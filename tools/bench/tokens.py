"""What LoadGen and the runner add to tokens as a bare client sees them: python -m tools.bench.tokens.

Rounds alternate between a bare loop of the same library (aiohttp) and a Server run, against a server
of known delays, since absolute numbers move with the load of the machine.  Then 1,000 answers at
once: how many events a second the one event loop takes.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from runner import Job, RunSettings, measure
from runner.tokens import new_loop
from tests.runner.openai_server import Scripted
from tests.runner.scripted import SCRIPTED

ROUNDS, SECONDS, RATE = 3, 3.0, 40.0
FIRST_MS, TOKEN_MS = 20.0, 5.0
STREAMS, STREAM_TOKEN_MS, ANSWERS = 1000, 100.0, 4000
BENCHMARK = "tests.runner.scripted:{}"
LIMITS: dict[str, Any] = {"token_latencies": True, "equal_issue": True}


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


async def bare(url: str) -> tuple[list[float], list[float]]:
    """TTFT and TPOT in ms of a Poisson stream of requests: the least that the library can do."""
    import aiohttp

    dataset: Any = SCRIPTED.make_dataset(None)
    source, firsts, others = random.Random(1), [], []

    async def one(session: Any, index: int, due: float) -> None:
        text = dataset.prompt(index).text
        body = json.dumps(
            {
                "model": "scripted",
                "prompt": text,
                "max_tokens": 64,
                "stream": True,
                "stream_options": {"include_usage": True},
                "return_token_ids": True,
            }
        ).encode()
        first = 0.0
        async with session.post(f"{url}/v1/completions", data=body) as answer:
            async for data in answer.content.iter_any():
                if not first and b'"text"' in data:
                    first = time.perf_counter()
        firsts.append((first - due) * 1000)
        others.append((time.perf_counter() - first) * 1000 / (int(text.split()[0]) - 1))

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        tasks, due = [], time.perf_counter()
        end = due + SECONDS
        while (due := due + source.expovariate(RATE)) < end:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(one(session, source.randrange(40), due)))
        await asyncio.gather(*tasks)
    return firsts, others


def under_loadgen(url: str, folder: Path) -> dict[str, Any]:
    settings = RunSettings(
        "scripted",
        "Server",
        min_duration_ms=round(SECONDS * 1000),
        target_qps=RATE,
        ttft_ms=1000.0,
        tpot_ms=100.0,
        **LIMITS,
    )
    options = {"url": url}
    job = Job(
        BENCHMARK.format("SCRIPTED"),
        settings,
        backend="openai",
        backend_options=options,
        workers=256,
        early_stop=False,
    )
    return dict(measure(job, folder).detail)


def at(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def sent(stamps: list[tuple[float, float, float, int]]) -> tuple[list[float], list[float]]:
    """TTFT and TPOT in ms by the server's own clock, when it sent."""
    return (
        [1000 * (first - asked) for asked, first, _, _ in stamps],
        [1000 * (end - first) / (count - 1) for _, first, end, count in stamps],
    )


def added(folder: Path) -> None:
    """Both clients against what the server stamped in the same seconds: its own delays do not count."""
    rows: dict[str, list[tuple[float, float, float, float]]] = {}
    with Scripted(first_ms=FIRST_MS, token_ms=TOKEN_MS) as server:
        for number in range(ROUNDS):
            with asyncio.Runner(loop_factory=new_loop) as runner:
                plain = runner.run(bare(server.url))
            before = sent(server.stamps()[-len(plain[0]) :])
            detail = under_loadgen(server.url, folder / f"{number}")
            behind = sent(server.stamps()[-detail["result_query_count"] :])
            for name, share in (("50.00", 0.5), ("99.00", 0.99)):
                for kind, key in enumerate(
                    (
                        f"result_first_token_{name}_percentile_latency_ns",
                        f"result_time_per_output_token_{name}_percentile_ns",
                    )
                ):
                    place = rows.setdefault(f"{('TTFT', 'TPOT')[kind]} p{name[:2]}", [])
                    place.append(
                        (
                            at(plain[kind], share),
                            at(before[kind], share),
                            detail[key] / 1e6,
                            at(behind[kind], share),
                        )
                    )
    say(
        f"server: {FIRST_MS:g} ms to the first token, {TOKEN_MS:g} ms per token; {RATE:g} queries/s; "
        "ms, of which added to the server's own clock"
    )
    for name, values in rows.items():
        bare_ms, clock, loadgen_ms, other = (
            statistics.median(column) for column in zip(*values, strict=True)
        )
        say(
            f"{name}: bare {bare_ms:.3f} ({bare_ms - clock:+.3f}), under LoadGen {loadgen_ms:.3f} "
            f"({loadgen_ms - other:+.3f})"
        )


def streams(folder: Path) -> None:
    settings = RunSettings(
        "scripted",
        "Offline",
        min_duration_ms=1000,
        min_query_count=ANSWERS,
        target_qps=500.0,
        **LIMITS,
    )
    with Scripted(token_ms=STREAM_TOKEN_MS, many=True) as server:
        options = {"url": server.url}
        job = Job(
            BENCHMARK.format("LONG"),
            settings,
            backend="openai",
            backend_options=options,
            workers=STREAMS,
            early_stop=False,
        )
        detail = measure(job, folder / "streams").detail
    offered = STREAMS / STREAM_TOKEN_MS * 1000
    rate = detail["result_tokens_per_second"]
    say(
        f"{STREAMS:,} answers at once: {rate:,.0f} of {offered:,.0f} events/s offered, one event loop"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        added(Path(name))
        streams(Path(name))


if __name__ == "__main__":
    main()
