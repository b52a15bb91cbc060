"""A LoadGen run whose system under test reports tokens wrongly: `python -m tests.checker.token_misuse KIND OUT`.

As a harness would that counts text in place of tokens, or forgets the first one: LoadGen logs errors
and calls the run VALID all the same.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import mlperf_loadgen as lg

KINDS = ("none", "zero", "one", "absent", "no-first")


def run(kind: str, out: Path) -> None:
    settings = lg.TestSettings()
    settings.scenario = lg.TestScenario.Server
    settings.mode = lg.TestMode.PerformanceOnly
    settings.use_token_latencies = True
    # Valid on a machine that is held up meanwhile, too.
    settings.ttft_latency = settings.tpot_latency = 600_000_000_000
    settings.server_target_latency_ns = 0
    settings.server_target_qps = 500
    settings.min_duration_ms = 200
    settings.min_query_count = 500

    def issue(queries: list[Any]) -> None:
        for query in queries:
            wrong = kind if query.id % 50 == 0 else "none"
            if wrong != "no-first":
                lg.FirstTokenComplete([lg.QuerySampleResponse(query.id, 0, 0)])
            time.sleep(0.0002)
            if wrong == "absent":
                response = lg.QuerySampleResponse(query.id, 0, 0)
            else:
                count = {"zero": 0, "one": 1}.get(wrong, 20)
                response = lg.QuerySampleResponse(query.id, 0, 0, count)
            lg.QuerySamplesComplete([response])

    log = lg.LogSettings()
    log.log_output.outdir = str(out)
    log.enable_trace = False
    sut = lg.ConstructSUT(issue, lambda: None)
    qsl = lg.ConstructQSL(100, 100, lambda _: None, lambda _: None)
    lg.StartTestWithLogSettings(sut, qsl, settings, log)
    lg.DestroyQSL(qsl)
    lg.DestroySUT(sut)


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True)
    run(sys.argv[1], folder)
