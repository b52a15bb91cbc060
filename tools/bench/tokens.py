"""What LoadGen and the runner add to tokens, beside a bare client: python -m tools.bench.tokens.

Rounds alternate between a bare loop of aiohttp, which most load generators are made of, and a run, against a
server of known delays that stamps what it receives and sends; since absolute numbers move with the load of the
machine, a process beside both says how late the machine wakes.  Then 1,000 answers at once: how many
events a second the one event loop takes, and at what cost.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from runner import Job, RunSettings, measure
from runner.tokens import new_loop
from tests.runner.openai_server import Scripted, first_in_line
from tests.runner.scripted import SHORT
from tests.runner.wakeups import WakeUps

ROUNDS, SECONDS, RATE = 3, 4.0, 50.0
FIRST_MS, TOKEN_MS = 20.0, 5.0
DELAYS: dict[str, Any] = {"first_ms": FIRST_MS, "token_ms": TOKEN_MS}
STREAMS, STREAM_TOKEN_MS, ANSWERS = 1000, 100.0, 4000
BENCHMARK = "tests.runner.scripted:{}"
SHARES = {"50.00": 0.5, "90.00": 0.9, "99.00": 0.99}
LIMITS: dict[str, Any] = {"token_latencies": True, "equal_issue": True}


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


async def bare(url: str, scenario: str) -> tuple[list[float], list[float]]:
    """TTFT and TPOT in ms of requests in a Poisson stream (Server), or of one after the other."""
    import aiohttp

    dataset: Any = SHORT.make_dataset(None)
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
        for _ in range(3):
            await asyncio.gather(*(one(session, 0, 0.0) for _ in range(8)))  # warm, and connected
        firsts.clear()
        others.clear()
        tasks, due = [], time.perf_counter()
        end = due + SECONDS
        while scenario == "Server" and (due := due + source.expovariate(RATE)) < end:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(one(session, source.randrange(40), due)))
        while scenario != "Server" and (now := time.perf_counter()) < end:
            await one(session, source.randrange(40), now)
        await asyncio.gather(*tasks)
    return firsts, others


def under_loadgen(url: str, scenario: str, folder: Path) -> dict[str, Any]:
    server: dict[str, Any] = {"target_qps": RATE, "ttft_ms": 1000.0, "tpot_ms": 100.0}
    settings = RunSettings(
        "scripted",
        scenario,
        min_duration_ms=round(SECONDS * 1000),
        **(server if scenario == "Server" else {}),
        **LIMITS,
    )
    job = Job(
        BENCHMARK.format("SHORT"),
        settings,
        backend="openai",
        backend_options={"url": url},
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


def added(scenario: str, folder: Path) -> None:
    """Both clients, and beside each what the server stamped of the same answers."""
    rows: dict[str, list[list[float]]] = {}
    with first_in_line(), Scripted(**DELAYS) as server, WakeUps() as machine:
        for number in range(ROUNDS):
            with asyncio.Runner(loop_factory=new_loop) as runner:
                plain = runner.run(bare(server.url, scenario))
            true = sent(server.stamps()[-len(plain[0]) :])
            detail = under_loadgen(server.url, scenario, folder / f"{scenario}{number}")
            behind = sent(server.stamps()[-detail["result_query_count"] :])
            for kind, name in enumerate(("TTFT", "TPOT")):
                middle = ("first_token", "time_per_output_token")[kind]
                ending = ("_latency_ns", "_ns")[kind]
                for percentile, share in SHARES.items():
                    logged = detail[f"result_{middle}_{percentile}_percentile{ending}"] / 1e6
                    row = [at(plain[kind], share), at(true[kind], share), logged]
                    place = rows.setdefault(f"{name} p{percentile[:2]}", [])
                    place.append([*row, at(behind[kind], share)])
    rate = f", {RATE:g} queries/s" if scenario == "Server" else ""
    say(
        f"{scenario}{rate}: {FIRST_MS:g} ms to the first token, {TOKEN_MS:g} ms per token; medians of "
        f"{ROUNDS} rounds, ms; in brackets the most; the machine woke processes {machine.late[0]:.3f} ms late "
        f"at p50, {machine.late[1]:.3f} ms at p99"
    )
    for name, values in rows.items():
        columns = list(zip(*values, strict=True))
        bare_ms, true_ms, loadgen_ms, behind_ms = map(statistics.median, columns)
        say(
            f"  {name}: bare {bare_ms:.3f} [{max(columns[0]):.3f}], server's clock {true_ms:.3f} "
            f"({bare_ms - true_ms:+.3f}); under LoadGen {loadgen_ms:.3f} [{max(columns[2]):.3f}], server's "
            f"clock {behind_ms:.3f} ({loadgen_ms - behind_ms:+.3f})"
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
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        detail = measure(job, folder / "streams").detail
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    offered = STREAMS / STREAM_TOKEN_MS * 1000
    rate = detail["result_tokens_per_second"]
    say(
        f"{STREAMS:,} answers at once: {rate:,.0f} of {offered:,.0f} events/s offered, one event loop; "
        f"{busy:.1f} s of processor time, start included"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for scenario in ("SingleStream", "Server"):
            added(scenario, Path(name))
        streams(Path(name))


if __name__ == "__main__":
    main()
