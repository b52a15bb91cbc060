"""An OpenAI-compatible endpoint as the system under test: answers, token times, and every failure."""

from __future__ import annotations

import json
import operator
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from runner.backends.openai import OpenAI, bases_of
from runner.benchmarks.base import Benchmark
from runner.errors import BackendError, HopelessRun, LostQuery, RunnerError
from runner.run import Job, Measurement, measure
from runner.settings import RunSettings
from tests.runner.openai_server import Scripted, first_in_line
from tests.runner.scripted import COUNTED, SCRIPTED
from tests.runner.wakeups import WakeUps

pytest.importorskip("httptools", reason="the extra openai is not installed")
NAME = "tests.runner.scripted:SCRIPTED"
SHORT = "tests.runner.scripted:SHORT"
WITHIN = (0.75, 1.0, 0.25, 0.25)
"""Ms added to TTFT p50 and p99 and to TPOT p50 and p99."""
AT_MOST = (3.0, 20.0, 0.5, 5.0)
"""The same on a busy machine, and what the machine itself is late."""

STANDSTILL = 200.0
"""Ms that a machine that is only busy is not late."""


def settings(scenario: str = "SingleStream", mode: str = "performance", **more: Any) -> RunSettings:
    server = scenario == "Server"
    limits = {"ttft_ms": 200.0, "tpot_ms": 50.0} if server else {}
    chosen = {"min_duration_ms": 300, "token_latencies": True, **limits, **more}
    return RunSettings("scripted", scenario, mode, **chosen)  # type: ignore[arg-type]


def run(
    folder: Path, url: str | list[str], how: RunSettings, name: str = NAME, **options: Any
) -> Measurement:
    workers, early = options.pop("workers", 64), options.pop("early_stop", True)
    warm_up_s = options.pop("warm_up_s", 0.1)
    job = Job(
        name,
        how,
        backend="openai",
        backend_options={"url": url, **options},
        workers=workers,
        warm_up_s=warm_up_s,
        early_stop=early,
    )
    return measure(job, folder)


def load(benchmark: Benchmark = SCRIPTED, **options: Any) -> OpenAI:
    backend = OpenAI(**options)
    backend.load(benchmark, None, benchmark.make_dataset(None))
    return backend


@pytest.mark.parametrize("api", ["completions", "chat"])
@pytest.mark.parametrize("name", ["SCRIPTED", "COUNTED"])
def test_accuracy_run(tmp_path: Path, api: str, name: str) -> None:
    """All answers in the log as int32 token ids; with a tokenizer only what is text, no end mark."""
    with Scripted(ids=name == "SCRIPTED") as server:
        how = settings("Offline", "accuracy")
        found = run(tmp_path / "run", server.url, how, f"tests.runner.scripted:{name}", api=api)
    assert (found.valid, found.warnings, found.samples) == (True, (), 40)
    counted = "by the server" if name == "SCRIPTED" else "by the tokenizer"
    assert f"({api}, streamed), 1 server version scripted, model scripted" in found.framework
    assert counted in found.framework
    log = json.loads((tmp_path / "run" / "mlperf_log_accuracy.json").read_bytes())
    end = [2] if name == "SCRIPTED" else []
    for entry in log:
        wanted = [*range(10, 29 + entry["qsl_idx"] % 5), *end]
        assert bytes.fromhex(entry["data"]) == b"".join(t.to_bytes(4, "little") for t in wanted)
        assert entry["token_count"] == len(wanted)


FAULTS = {
    "429": "found HTTP 429 (scripted 429); expected 200. Lower the load",
    "500": "found HTTP 500 (scripted 500); expected 200. Look into the server's log.",
    "cut": " chunks (the server closed it in the middle of the answer); expected a whole answer.",
    "killed": " chunks (the server closed it in the middle of the answer); expected a whole answer.",
    "malformed": "found a malformed chunk",
    "error": "the server reported an error in the stream: scripted error.",
    "no-done": "found no [DONE] at its end",
    "unfinished": "found finish_reason absent; expected stop or length.",
    "usage": "completion tokens in the server's usage; expected",
    "endless": "the answer goes on past 64 tokens (max_tokens)",
    "silent": "found no byte for 6 s",
    "empty": "found an answer of 0 tokens",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_query_fails_the_run(tmp_path: Path, fault: str) -> None:
    """Whatever goes wrong: the run ends with the cause and the query, and claims nothing."""
    # One request before the run and one in its warm-up; the time-out is longer than a sound answer takes
    # on a machine that stands still for a while.
    how = settings(min_duration_ms=20_000)
    with Scripted(fault=fault, sound=20) as server, pytest.raises(LostQuery) as raised:
        run(tmp_path / "run", server.url, how, warm_up_s=0.0, timeout=6.0)
    said = str(raised.value)
    assert FAULTS[fault] in said
    assert re.search(r"lost query \d+, sample \d+: http://127\.0\.0\.1:\d+: ", said)
    assert said.endswith("The run was ended there and nothing of it is claimed.")
    assert [path.name for path in tmp_path.iterdir()] == ["run.failed"]
    assert not list(tmp_path.rglob("mlperf_log_*"))  # only as failed-mlperf_log_*
    assert said in (tmp_path / "run.failed" / "REASON.txt").read_text("utf-8")


def test_a_server_that_was_restarted(tmp_path: Path) -> None:
    with Scripted(fault="restarted", sound=30) as server, pytest.raises(RunnerError) as raised:
        run(tmp_path / "run", server.url, settings(min_duration_ms=3000))
    assert "found a server that was restarted during the run" in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run.failed"]


@pytest.mark.parametrize("scenario", ["SingleStream", "Server"])
def test_known_delays(tmp_path: Path, scenario: str) -> None:
    """20 ms to the first token, 5 ms for each further one: LoadGen's log has what the server's clock has.

    Within 1 ms.  Where a process that did nothing else saw the machine stall in the same seconds, that is
    tried again, and at last left open; never where the machine was quiet.
    """
    more = {"target_qps": 50.0, "equal_issue": True} if scenario == "Server" else {}
    told, apart = [], []
    for attempt in range(5):
        with first_in_line(), Scripted(first_ms=20, token_ms=5) as server, WakeUps() as machine:
            how = settings(scenario, min_duration_ms=4000, **more)
            found = run(tmp_path / f"{attempt}", server.url, how, SHORT, early_stop=False)
            stamps = server.stamps()
        detail = found.detail
        assert detail["requested_use_token_latencies"] is True
        stamps = stamps[-detail["result_query_count"] :]
        # Never shorter than they were: nothing is told early.  Where a first token came late the others
        # follow sooner, so that the time between them is as it should be on a quiet machine alone.
        assert detail["result_first_token_min_latency_ns"] >= 20e6
        assert detail["result_mean_latency_ns"] >= 1e9 * fmean(end - a for a, _, end, _ in stamps)
        apart.append(detail["result_time_to_output_token_mean"] >= 4.5e6)
        if scenario == "Server":
            assert detail["requested_server_ttft_latency"] == 200_000_000
            assert found.metric == detail["result_completed_tokens_per_second"]
            # 5 tokens each; about 200 queries of a Poisson schedule
            taken = max(end for _, _, end, _ in stamps) - min(asked for asked, *_ in stamps)
            assert found.metric == pytest.approx(5 * len(stamps) / taken, rel=0.1)
        sent = {
            "first_token": [first - asked for asked, first, _, _ in stamps],
            "time_per_output_token": [(end - first) / (n - 1) for _, first, end, n in stamps],
        }
        added = []
        for kind, latency in (("first_token", "_latency"), ("time_per_output_token", "")):
            for share in ("50.00", "99.00"):
                logged = detail[f"result_{kind}_{share}_percentile{latency}_ns"] / 1e6
                added.append(logged - 1000 * percentile(sent[kind], float(share) / 100))
        told.append([round(value, 3) for value in (*added, *machine.late)])
        if all(map(operator.le, added, WITHIN)) and apart[-1]:
            return
    said = f"ms added to TTFT p50, p99, TPOT p50, p99; machine late p50, p99, most: {told}"
    # Nothing follows from a run in which the machine stood still.
    going = [values for values in told if values[-1] < STANDSTILL]
    if going and not any(
        all(value <= most + late for value, most in zip(added, AT_MOST, strict=True))
        for *added, _, late, _ in going
    ):
        pytest.fail(said)
    if going and not any(
        ttft <= 1.0 + 4 * late and tpot <= 0.25 + late for _, ttft, _, tpot, _, late, _ in going
    ):
        pytest.fail(said)
    assert any(apart) or not going, said
    pytest.skip(f"this machine is too busy to tell one millisecond; {said}")


def percentile(values: list[float], share: float) -> float:
    """As LoadGen takes it: the value that so many are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def test_a_server_over_its_capacity(tmp_path: Path) -> None:
    """Two places of 120 ms answer 16 queries a second; 60 a second are told to be too many."""
    how = settings("Server", min_duration_ms=2000, target_qps=60.0, ttft_ms=300.0, tpot_ms=1000.0)
    script = {"first_ms": 20, "token_ms": 5, "capacity": 2}
    with Scripted(**script) as server:
        job = Job(NAME, how, backend="openai", backend_options={"url": server.url}, workers=500)
        with pytest.raises(HopelessRun, match="first tokens later than 300 ms"):
            measure(job, tmp_path / "early")
        found = measure(replace(job, early_stop=False), tmp_path / "whole")
    assert found.valid is False
    assert found.detail["result_validity"] == "INVALID"
    assert found.reasons[0].startswith("TTFT constrain not met: Reduce target QPS")
    assert found.detail["result_first_token_99.00_percentile_latency_ns"] > 300e6
    assert found.detail["result_time_per_output_token_99.00_percentile_ns"] < 1000e6


def test_too_few_queries_for_early_stopping(tmp_path: Path) -> None:
    """LoadGen explains early stopping of tokens under keys of their own."""
    limits = {"ttft_ms": 60_000.0, "tpot_ms": 60_000.0}
    how = settings("Server", min_duration_ms=300, target_qps=200.0, **limits)
    with Scripted() as server:
        found = run(tmp_path / "run", server.url, how)
    (reason,) = found.reasons
    assert reason.startswith("early stopping is not satisfied: Run unsuccessful. Processed ")
    assert "more queries, with the run being successful if every additional query" in reason


def test_the_load_is_balanced(tmp_path: Path) -> None:
    """Two servers with one place each carry together what one of them cannot."""
    script = {"first_ms": 20, "token_ms": 2, "capacity": 1}
    with Scripted(**script) as one, Scripted(**script) as two:
        how = settings("Offline", min_duration_ms=500, target_qps=30.0, min_query_count=40)
        both = run(tmp_path / "two", [one.url, f"{two.url}/v1/"], how, workers=2)
        answers = [[(asked, end) for asked, _, end, _ in s.stamps()] for s in (one, two)]
    assert both.metric and "2 servers" in both.framework
    # By the servers' clocks: no answer waited for another, and nearly each had company at the other server.
    for mine, others in (answers, answers[::-1]):
        assert len(mine) > 10
        assert all(end <= asked for (_, end), (asked, _) in pairwise(sorted(mine)))
        company = [any(a < end and asked < b for a, b in others) for asked, end in mine]
        assert sum(company) > 0.8 * len(mine)


def test_workers_bound_the_answers_in_work(tmp_path: Path) -> None:
    how = settings("Server", min_duration_ms=500, target_qps=200.0, ttft_ms=60_000.0)
    with Scripted(first_ms=30) as server:
        found = run(tmp_path / "run", server.url, how, workers=2)
    held = next(w for w in found.warnings if "queries waited until fewer than 2 answers" in w)
    assert int(held.split()[0].replace(",", "")) > 20


@pytest.mark.parametrize(
    ("script", "options", "said"),
    [
        ({"models": ("a", "b")}, {}, "found models a, b; expected one model at every --url."),
        ({}, {"model": "b"}, "found models scripted; expected 'b'. Correct --backend-option model"),
        ({"max_model_len": 60}, {}, "found max_model_len 60 of model 'scripted'; expected more than the 64"),
        ({"ids": False}, {}, "found no token ids in the answer and no tokenizer; expected one of them"),
        ({"ids": False}, {"ids": "server"}, "expected them, since ids=server"),
        ({"key": "secret"}, {}, "found HTTP 401 (no such key); expected 200. Set OPENAI_API_KEY in"),
        ({"refuses": ("stream_options",)}, {}, "found HTTP 400 (unknown parameter stream_options)"),
        ({"fault": "500"}, {}, "found HTTP 500 (scripted 500); expected 200."),
    ],
)  # fmt: skip
def test_what_no_run_begins_with(
    script: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    with Scripted(**script) as server, pytest.raises(BackendError) as raised:
        load(url=server.url, **options)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("script", "key", "options", "status", "said"),
    [
        ({"fault": "killed", "sound": 60}, "", (), 1, "the connection broke after "),
        ({"fault": "500", "sound": 60}, "", (), 1, "found HTTP 500 (scripted 500); expected 200."),
        ({"key": "right"}, "wrong", (), 2, "Correct OPENAI_API_KEY in the environment: the server "),
        ({"models": ("other",)}, "", ("--backend-option", "model=scripted"), 2,
         "found models other; expected 'scripted'. Correct --backend-option model"),
    ],
)  # fmt: skip
def test_what_a_user_sees_of_a_failure(
    script: dict[str, Any],
    key: str,
    options: tuple[str, ...],
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A message, an exit status, no tree; and nothing in what the runs left that could be valid."""
    import assay
    from assay.cli import main

    monkeypatch.setenv("OPENAI_API_KEY", key)
    tree = tmp_path / "tree"
    command = ["run", "--benchmark", NAME.replace("SCRIPTED", "COUNTED"), "--round", "demo"]
    command += ["--scenario", "SingleStream", "--out", str(tree), "--no-progress"]
    with Scripted(**script) as server:
        assert main([*command, "--url", server.url, *options]) == status
    output = capsys.readouterr()
    assert said in (output.out if status == 1 else output.err)
    assert not tree.exists()
    for left in tmp_path.iterdir():
        assert not [r for r in assay.check(left, round="demo").results if r.status == "valid"]


def test_a_warning_is_seen_without_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from assay.cli import main

    command = ["run", "--benchmark", NAME, "--round", "demo", "--scenario", "SingleStream"]
    command += ["--min-duration", "1", "--out", str(tmp_path / "tree"), "--no-progress"]
    with Scripted(models=("other",)) as server:
        assert main([*command, "--url", server.url]) == 0
    said = "the servers call their model 'other'; expected a name with scripted for scripted"
    assert f"scripted SingleStream performance: {said}" in capsys.readouterr().err.splitlines()


def test_servers_that_differ() -> None:
    with (
        Scripted() as one,
        Scripted(max_model_len=2048) as two,
        pytest.raises(BackendError, match="that differ"),
    ):
        load(url=[one.url, two.url])


def test_the_key_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And is written nowhere."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret-4711")
    with Scripted(key="secret-4711") as server:
        # LoadGen does not run out of queries, however much faster the run is than the warm-up.
        found = run(tmp_path / "run", server.url, settings(expected_latency_ms=0.02))
    assert found.valid, found.reasons
    for path in (tmp_path / "run").iterdir():
        assert "secret-4711" not in path.read_text("utf-8")
    assert "secret-4711" not in repr(found)


def test_parameters_that_a_server_refuses() -> None:
    """Such as return_token_ids, which not every server knows: the tokenizer counts then."""
    with Scripted(refuses=("return_token_ids",)) as server:
        backend = load(COUNTED, url=server.url)
        assert "by the tokenizer" in backend.framework
        body = json.loads(backend.request(3))
    assert body == {
        "model": "scripted",
        "prompt": "23 tokens of sample 3",
        "max_tokens": 64,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
    }


def test_urls() -> None:
    assert bases_of(["http://a:1/v1/", "http://a:1", "https://b/x/v1"]) == [
        "http://a:1",
        "https://b/x",
    ]
    with pytest.raises(BackendError, match=r"expected http:// or https://\."):
        bases_of("grpc://a:1")


def test_no_server_there() -> None:
    said = r"found no server at http://{}:9/v1/models \(Connection refused\); expected an OpenAI-"
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(BackendError, match=said.format(re.escape(host))):
            OpenAI.preflight({"url": f"http://{host}:9"})
    with pytest.raises(BackendError, match=r"(?i)models \([^[(]*name[^[(]*\); expected"):
        OpenAI.preflight({"url": "http://no.such.host.invalid"})
