"""No bytes make a parser raise, and it stays fast and small whatever they are."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checker.parse.accuracy_log import read_ends
from checker.parse.accuracy_txt import read_accuracy
from checker.parse.detail_file import read_detail
from checker.parse.documents import read_json
from checker.parse.endpoints import read_yaml
from checker.parse.power import read_ptd_log, read_samples
from checker.parse.reading import File
from checker.parse.summary import into_detail, read_summary
from checker.parse.user_conf import read_conf
from checker.parse.verify import read_verification
from schemas.load import load_round
from tests.trees import Setup, make_log

_V60 = load_round("v6.0")


def _log(scenario: str, round: str = "v6.0", benchmark: str = "yolo-99") -> Any:
    data = load_round(round)
    about = data.benchmarks[benchmark]
    start = datetime.datetime(2026, 1, 1)
    return make_log(
        Setup(data, about, benchmark, scenario, about.scenarios[scenario], "performance", start)
    )


_DETAIL = _log("SingleStream").detail().encode()
_TEXT = _log("Offline", "v0.7", "3d-unet-99").text().encode()
_SUMMARY = _log("MultiStream").summary().encode()
_SPL = b"".join(
    b"Time,07-23-2024 17:08:%02d.500,Watts,%d.0,Volts,230.0,Amps,1.0,PF,0.9,Mark,s_testing\n"
    % (i, i)
    for i in range(20)
)

Parser = Callable[[File], Any]
PARSERS: dict[str, tuple[Parser, bytes]] = {
    "detail": (read_detail, _DETAIL),
    "text detail": (read_detail, _TEXT),
    "summary": (read_summary, _SUMMARY),
    "accuracy.txt": (
        lambda file: read_accuracy(file, _V60.accuracy_patterns),
        b"{'rouge1': 44.4, 'rouge2': 22.0, 'gen_len': 5}\nmAP=53.1%\nhash=" + b"ab" * 32 + b"\n",
    ),
    "user.conf": (read_conf, b"# a\n*.Offline.target_qps = 100\nllama3.1-8b.Server.min_query_count=5\n"),
    "json": (read_json, b'{"a": [1, 2.5, null, {"b": "c"}], "a": 1e5}'),
    "yaml": (read_yaml, b"a: 1\nb:\n  - c\n  - {d: e}\n"),
    "verify": (
        read_verification,
        b"num_acc_log_entries = 5\nReference score = 1.5\nEOS check pass: True\nTEST PASS\n",
    ),
    "spl.txt": (read_samples, _SPL),
    "ptd_logs.txt": (read_ptd_log, b"07-25-2024 18:06:24.567: Connected\nTime,x,y\n"),
    "accuracy log": (read_ends, b'[\n{ "seq_id" : 0, "qsl_idx" : 1, "data" : "00" }\n]\n'),
}  # fmt: skip


def _parse(parser: Parser, content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        path.write_bytes(content)
        return parser(File("f", str(path), len(content)))


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """A sound file with some bytes or lines changed, doubled, cut out or put elsewhere."""
    lines = content.split(b"\n")
    for _ in range(draw(st.integers(1, 4))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(["bytes", "cut", "double", "drop", "swap", "insert", "value"]))
        line = lines[at]
        if kind == "bytes" and line:
            i = draw(st.integers(0, len(line) - 1))
            lines[at] = line[:i] + draw(st.binary(min_size=1, max_size=4)) + line[i + 1 :]
        elif kind == "cut" and line:
            lines[at] = line[: draw(st.integers(0, len(line)))]
        elif kind == "double":
            lines.insert(at, line)
        elif kind == "drop":
            del lines[at]
        elif kind == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == "insert":
            lines.insert(at, draw(st.binary(max_size=60)))
        else:
            odd = draw(
                st.sampled_from(
                    [
                        b"NaN",
                        b"1e999",
                        b"-1",
                        b"null",
                        b"[]",
                        b"{}",
                        b'"\\ud800"',
                        b"9" * 400,
                        b"true",
                        b"",
                    ]
                )
            )
            head, colon, _ = line.partition(b": ")
            lines[at] = head + colon + odd
    return b"\n".join(lines)


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
@settings(max_examples=60)
def test_any_bytes(name: str, data: st.DataObject) -> None:
    parser, sound = PARSERS[name]
    content = data.draw(
        st.one_of(
            st.binary(max_size=400),
            st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass")),
            mutated(sound),
        )
    )
    _use(_parse(parser, content))


def _use(parsed: Any) -> None:
    """What rules do with a parsed file must not raise either."""
    for fault in getattr(parsed, "faults", []):
        assert fault.message and fault.path == "f"
    if hasattr(parsed, "entries"):
        for key in parsed.entries:
            for ask in (
                parsed.get,
                parsed.number,
                parsed.integer,
                parsed.text,
                parsed.boolean,
                parsed.line,
            ):
                ask(key)
    if hasattr(parsed, "lookup"):
        for setting in parsed.settings:
            parsed.lookup(setting.model, setting.scenario, setting.key)
            assert setting.number is None or isinstance(setting.number, float)


@given(data=st.data())
@settings(max_examples=60)
def test_summary_into_detail(data: st.DataObject) -> None:
    detail = _parse(read_detail, data.draw(mutated(_TEXT)))
    summary = _parse(read_summary, data.draw(mutated(_SUMMARY)))
    into_detail(summary, detail)
    _use(detail)


@given(content=mutated(_DETAIL))
@settings(max_examples=100)
def test_what_is_not_damaged_is_still_read(content: bytes) -> None:
    """Every line that is still a sound record is found, whatever the others are."""
    import json

    parsed = _parse(read_detail, content)
    if parsed.format != "mllog":
        return
    for line in content.split(b"\n"):
        if not line.startswith(b":::MLLOG "):
            continue
        try:
            record = json.loads(line[9:])
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("key"), str):
            assert record["key"] in parsed
