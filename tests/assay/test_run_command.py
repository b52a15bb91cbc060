"""`assay run` and `quantize` from the command line: what they say, keep and return."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from assay.cli import main
from runner.benchmarks.digits import DIGITS

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["--backend", "dummy", "--min-duration", "0.4", "--scenario", "SingleStream"]


def run(out: Path, *more: str) -> int:
    return main(["run", "--out", str(out), "--system", "box", *SHORT, *more])


def test_a_run_tells_its_cost_and_its_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "tree") == 0
    out, err = capsys.readouterr()
    assert out.startswith("digits SingleStream valid")
    assert "by the rules of round demo" in err and "at least" in err and "MB of samples" in err
    assert "no check will accept it" in err  # shorter than the round asks
    assert "add --compliance" in err
    assert f"assay check {tmp_path / 'tree'}" in err
    assert "pre-generated" in err


def test_a_run_that_was_ended_early_is_not_said_to_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = ["--backend", "tests.runner.cheats:Sleeps", "--backend-option", "seconds=0.2"]
    many = ["--scenario", "Server", "--target-qps", "200", "--min-duration", "5"]
    assert main(["run", "--out", str(tmp_path / "tree"), *slow, *many]) == 1
    out, err = capsys.readouterr()
    assert "digits Server       invalid     not measured" in out and "Lower target_qps" in out
    assert "written to" not in err and not (tmp_path / "tree").exists()


def test_a_data_set_too_small_for_the_round_is_told_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_division = ["--dry-run", "--division", "open", "--as", "resnet", "--round", "v6.1"]
    assert run(tmp_path / "tree", *open_division) == 0
    err = capsys.readouterr().err
    assert "SingleStream has 500 samples; round v6.1 requires 50,000 of resnet" in err
    assert run(tmp_path / "tree", "--dry-run") == 0
    assert "samples; round" not in capsys.readouterr().err
    assert run(tmp_path / "tree", "--dry-run", "--data", str(tmp_path)) == 0  # the run will say why


def test_what_a_benchmark_counts_as_is_told_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "tree", "--dry-run", "--benchmark", "mobilenet") == 0
    assert (
        "round v6.1 scores mobilenet as resnet: acc of at least 75.695, which its own reference of "
        "round v0.5, 71.68, cannot meet: see --division open"
    ) in capsys.readouterr().err
    assert run(tmp_path / "tree", "--dry-run", "--benchmark", "resnet50") == 0
    err = capsys.readouterr().err
    assert "scores" not in err
    assert "resnet is not in the datacenter suite of round v6.1" in err
    only = ["--benchmark", "resnet50", "--system-type", "datacenter"]
    assert run(tmp_path / "tree", "--dry-run", *only) == 0
    err = capsys.readouterr().err
    assert "resnet is not a benchmark of datacenter systems in round v6.1; expected" in err
    older = ["--benchmark", "resnet50", "--round", "v5.0"]
    assert run(tmp_path / "tree", "--dry-run", *older) == 0
    assert "datacenter suite" not in capsys.readouterr().err


def test_a_dry_run_measures_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(tmp_path / "tree", "--dry-run", "--find-qps", "--compliance", "--round", "demo")
    assert code == 0
    assert "a search for the load" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--round", "v0.5"], "round v0.5 has no system types"),
        (["--benchmark", "resnet50"], "found no folder of ImageNet"),
        (["--backend-option", "mode=nan"], "does not take these options: mode=nan"),
        (["--backend", "/no/such.py:Mine"], "there is no file /no/such.py"),
        (["--benchmark", "resnet5"], "expected one of digits"),
        (["--scenario", "Batch"], "unknown scenario"),
        (["--round", "v9"], "known rounds"),
        (["--as", "resnet"], "belongs to --division open"),
        (["--as", "gnmt", "--division", "open"], "has no such benchmark"),
        (["--compliance", "--round", "v6.1"], "does not know digits"),
        (["--find-qps", "--target-qps", "5"], "give one of them"),
        (["--model", "/no/such.onnx", "--backend", "onnxruntime"], "found no model"),
        (["--data", "/no/such"], "found no data set"),
        (["--workers", "0"], "not a whole number"),
        (["--target-qps", "-3"], "not a number above 0"),
        (["--margin", "100"], "not a percentage"),
        (["--backend-option", "x"], "NAME=VALUE"),
        (["--submitter", "two words"], "expected letters"),
        (["--system-type", "toaster"], "datacenter"),
    ],
)
def test_what_cannot_be_done_exits_2(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "tree", *arguments) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_refuses_what_a_run_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, words in (
        (["--round", "v0.5"], "round v0.5 has no system types"),
        (["--system-type", "toaster"], "expected one of 'datacenter'"),
    ):
        assert run(tmp_path / "tree", "--dry-run", *arguments) == 2
        assert words in capsys.readouterr().err
    assert run(Path("/"), "--dry-run") == 2
    assert "expected a folder below it" in capsys.readouterr().err


def test_the_current_folder_may_be_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert (
        run(Path(), "--scenario", "SingleStream", "--system", "box", "--min-duration", "0.4") == 0
    )
    assert (here / "closed/Assay/results/box/digits/SingleStream").is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "here.traces"]


def test_a_bad_user_conf_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "mine.conf"
    for line, words in (
        ("digits.Server.targetqps = 3", "does not know"),
        ("digits.*.mode = 2", "must not set"),
        ("*.*.min_duration = 600", "milliseconds"),
    ):
        conf.write_text(f"# mine\n{line}\n")
        assert run(tmp_path / "tree", "--user-conf", str(conf)) == 2
        err = capsys.readouterr().err
        assert f"{conf}:2" in err and words in err
    assert run(tmp_path / "tree", "--user-conf", str(tmp_path / "none.conf")) == 2


def test_a_missed_gate_exits_1_and_names_the_margin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ["--backend-option", "answer=constant"]
    assert run(tmp_path / "tree", *wrong) == 1
    out = capsys.readouterr().out
    assert "gate-missed" in out and "short)" in out and "not measured" in out
    assert not (tmp_path / "tree").exists()
    assert run(tmp_path / "tree", *wrong, "--measure-anyway") == 0
    assert "no closed-division result" in capsys.readouterr().out
    assert [p.name for p in (tmp_path / "tree").iterdir()] == ["open"]
    report = tmp_path / "report.json"
    assert main(["check", str(tmp_path / "tree"), "--round", "demo", "--output", str(report)]) == 1
    (result,) = json.loads(report.read_text())["results"]
    assert result["division"] == "open"


def start(
    out: Path, *more: str, environment: Mapping[str, str] = MappingProxyType({}), **kinds: object
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "assay",
            "run",
            "--out",
            str(out),
            "--system",
            "box",
            "--backend",
            "dummy",
            *more,
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1", **environment},
        **kinds,  # type: ignore[call-overload]
    )


def test_ctrl_c_keeps_what_was_finished_and_the_rest_runs_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, conf = tmp_path / "tree", tmp_path / "user.conf"
    # The second scenario is under way however long the signal takes to come.
    conf.write_text("*.Offline.min_duration = 60000\n")
    process = start(out, "--scenario", "SingleStream,Offline", "--user-conf", str(conf))
    finished = out / "closed/Assay/results/box/digits/SingleStream"
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("tree.runs/Offline/performance.unfinished")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "SingleStream valid" in said
    assert f"kept: 1 finished scenario in {out}" in errors and "Nothing is claimed" in errors
    assert "stopped by SIGINT" in errors
    assert not finished.with_name("Offline").exists()
    again = ["run", "--out", str(out), "--system", "box", "--backend", "dummy", "--no-progress"]
    again += ["--scenario", "SingleStream,Offline", "--user-conf", str(conf)]
    conf.write_text("")
    assert main(again) == 2  # SingleStream lies there already
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    assert main([*again, "--resume"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("digits SingleStream valid") and "measured before, kept" in said[1]
    assert said[2].startswith("digits Offline      valid")
    assert before == {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_scheduler_s_signals_end_a_run_as_ctrl_c_does(number: int, tmp_path: Path) -> None:
    out = tmp_path / "tree"
    process = start(out, "--scenario", "Offline", "--min-duration", "60")
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("tree.runs/*/performance.unfinished")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    (left,) = tmp_path.glob("tree.runs/Offline/performance.interrupted")
    assert signal.Signals(number).name in (left / "REASON.txt").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tree.runs"]


FILLING = """
mkdir disk && mount -t tmpfs -o size=128m tmpfs disk || exit 77
(until ls -d disk/tree.runs/Offline/performance.unfinished 2>/dev/null; do sleep 0.02; done
 dd if=/dev/zero of=disk/filler bs=1M 2>/dev/null) >/dev/null &
"$1" -P -m assay run --backend dummy --system box --scenario Offline,SingleStream \\
    --min-duration 2 --out disk/tree
status=$?
find disk -name '*.txt' | sort
exit $status
"""


def test_a_disk_that_fills_up_during_a_run(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare, which gives the test a small disk of its own")
    done = subprocess.run(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            FILLING,
            "sh",
            sys.executable,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no disk of its own here: {done.stderr.strip()}")
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("No space left on device") == 1
    assert "Traceback" not in done.stderr and "SingleStream performance" not in done.stderr
    files = done.stdout.split()
    assert not [name for name in files if name.startswith("disk/tree/")]
    assert "disk/tree.runs/Offline/performance.failed/REASON.txt" in files
    named = [name for name in files if "/performance" in name and "mlperf_log" in name]
    assert all("/failed-mlperf_log" in name for name in named)


def limited() -> None:
    """A disk with room for 8 KB a file; writing more fails as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))


def test_a_full_disk_claims_nothing_and_the_next_run_works(tmp_path: Path) -> None:
    out = tmp_path / "tree"
    # The accuracy log of 500 answers needs more. Bytecode that is cut would stay cut.
    uncompiled = {"PYTHONDONTWRITEBYTECODE": "1"}
    short = ["--scenario", "Offline", "--min-duration", "0.4"]
    process = start(out, *short, environment=uncompiled, preexec_fn=limited)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 2, errors
    assert said == "" and errors.count("its folder takes no more (File too large)") == 1
    assert not list(out.rglob("*.txt"))
    for path in tmp_path.rglob("mlperf_log_summary.txt"):
        assert ": VALID" not in path.read_text()
    assert run(out) == 0


def test_an_unwritable_place_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Path("/proc/assay/tree")) == 2
    assert "cannot be written" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file" / "tree") == 2
    assert run(tmp_path / "tree") == 0
    assert run(tmp_path / "tree") == 2  # a result lies there already
    assert "already" in capsys.readouterr().err
    assert run(tmp_path / "tree", "--overwrite") == 0


def test_an_invalid_run_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "--out", str(tmp_path / "tree"), "--system", "box", "--backend", "dummy"]
    arguments += ["--scenario", "Offline", "--min-duration", "4", "--target-qps", "2000"]
    assert main([*arguments, "--no-early-stop"]) == 1
    assert "Offline      invalid" in capsys.readouterr().out


def test_quantize_reports_both_accuracies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "int8.onnx"
    arguments = ["quantize", str(DIGITS.models["fp32"]), "--benchmark", "digits", "--out", str(out)]
    assert main([*arguments, "--calibration", "50"]) == 0
    said = capsys.readouterr().out
    assert "96.6 before" in said and "gate of round demo: 95.634, met by" in said
    assert main(arguments) == 2
    assert "already" in capsys.readouterr().err
    assert main([*arguments, "--overwrite", "--op-types", "Conv", "--method", "percentile"]) == 0
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    arguments[1] = str(tmp_path / "bad.onnx")
    assert main([*arguments, "--overwrite"]) == 2
