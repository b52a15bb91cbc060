"""The embedded stories: the text, the server, and a whole measurement that the checker accepts."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from runner.benchmarks.stories import MODEL, open_stories
from runner.datasets.tales import draw, join, piece, split
from runner.datasets.text import END, START

pytest.importorskip("aiohttp", reason="the extra openai is not installed")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    from runner.serve.process import Served

    served = Served("stories", MODEL)
    yield served.url
    served.stop()


def ask(url: str, path: str, body: Any = None) -> tuple[int, str]:
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def events(text: str) -> list[Any]:
    found = [part.removeprefix("data: ") for part in text.split("\n\n")[:-1]]
    assert found.pop() == "[DONE]"
    return [json.loads(part) for part in found]


def test_stories_are_settled_by_their_beginnings() -> None:
    """The same beginning has one end; tokens and text lead to one another."""
    stories = draw(300, 7, held_out=True)
    assert stories == draw(300, 7, held_out=True)
    assert len({join(beginning) for beginning, _ in stories}) == 300
    for beginning, end in stories:
        assert split(join(beginning)) == beginning
        assert "".join(piece(t, first=not k) for k, t in enumerate(end)) == join(end)


def test_the_package_s_files_are_what_the_grammar_draws() -> None:
    """As tools/train/stories.py wrote them; the model is small and knows every word."""
    known = frozenset(join(story[0]) for story in draw(24_000, 1, held_out=False))
    asked = draw(500, 2, held_out=True, known=known)
    stories = open_stories(None)
    assert stories.texts == [join(beginning) for beginning, _ in asked]
    assert stories.references == [join(end) for _, end in asked]
    assert not any(3 in stories.words.encode_text(text) for text in stories.texts)
    assert MODEL.stat().st_size < 1_000_000


def test_streamed_and_whole_answers_agree(url: str) -> None:
    """And all four forms say what the reference says: chat and text, streamed and whole."""
    stories = open_stories(None)
    prompt, wanted = stories.texts[3], list(stories.reference(3))
    assert wanted[-1] == END
    options = {"max_tokens": 90, "return_token_ids": True}
    chat = {"messages": [{"role": "user", "content": prompt}], **options}
    ids = [START, *stories.words.encode_text(prompt)[:-1]]
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    for path, body in (
        ("/v1/chat/completions", chat),
        ("/v1/completions", {"prompt": prompt, **options}),
        ("/v1/completions", {"prompt": ids, **options}),
    ):
        whole = json.loads(ask(url, path, body)[1])
        (choice,) = whole["choices"]
        text = choice["message"]["content"] if "chat" in path else choice["text"]
        assert (text, choice["token_ids"]) == (stories.references[3], wanted)
        assert choice["finish_reason"] == "stop"
        assert whole["usage"] == {
            "prompt_tokens": len(ids),
            "completion_tokens": len(wanted),
            "total_tokens": len(ids) + len(wanted),
        }
        parts = events(ask(url, path, {**body, **streamed})[1])
        assert parts.pop()["usage"] == whole["usage"]
        pieces = [part["choices"][0] for part in parts]
        assert [token for p in pieces for token in p.get("token_ids", [])] == wanted
        said = "".join(
            p["delta"].get("content", "") if "chat" in path else p["text"] for p in pieces
        )
        assert said == text
        assert [p["finish_reason"] for p in pieces if p["finish_reason"]] == ["stop"]


def test_an_answer_ends_at_max_tokens(url: str) -> None:
    body = {"prompt": open_stories(None).texts[0], "max_tokens": 5}
    answer = json.loads(ask(url, "/v1/completions", body)[1])
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "Expecting property name"),
        (b"[" * 200_000, ""),
        ([], "the body is not a JSON object"),
        ({"prompt": 5}, "prompt must be a text or a list of token ids"),
        ({"prompt": [1, 10**9]}, "a token that the model does not know"),
        ({"prompt": [5] * 128}, "the prompt has 128 tokens"),
        ({"prompt": "Mia", "max_tokens": 0}, "max_tokens must be a whole number above 0"),
        ({"prompt": "Mia", "model": "gpt"}, "the model 'gpt' does not exist"),
        ({"prompt": "Mia", "n": 2}, "n must be 1"),
        ({}, "prompt"),
    ],
)
def test_requests_that_cannot_be_served(url: str, body: Any, said: str) -> None:
    status, text = ask(url, "/v1/completions", body)
    assert status == 400
    assert said in json.loads(text)["error"]["message"]
    assert ask(url, "/health")[0] == 200


def test_a_measurement_that_the_checker_accepts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Accuracy, the gate, performance and TEST06, from a server that the runner starts itself.

    Which scenarios are VALID depends on how busy this machine is; so Offline alone must be.
    """
    from assay.cli import main

    tree = tmp_path / "tree"
    command = ["run", "--benchmark", "stories", "--scenario", "Offline", "--compliance"]
    command += ["--out", str(tree), "--no-progress", "--min-duration", "2"]
    assert main(command) == 0
    measured = capsys.readouterr().out.strip()
    assert " tokens/s; exact_match 100" in measured
    assert main([*command, "--resume"]) == 0  # the same figure, read from the logs
    assert capsys.readouterr().out.strip() == f"{measured}\n    measured before, kept"
    report = assay.check(tree, round="demo")
    # The other scenarios were not asked for.
    assert [(finding.rule, finding.severity) for finding in report.findings] == [
        ("S116", "error"),
        ("S117", "error"),
    ]
    (result,) = report.results
    assert result.metric is not None
    assert result.metric.name == "result_tokens_per_second"
    assert [(a.metric, a.value) for a in result.accuracy] == [
        ("exact_match", 100.0),
        ("TOKENS_PER_SAMPLE", 48.802),
    ]
    (folder,) = tree.glob("closed/Assay/results/*/stories/Offline")
    # LoadGen logs first tokens in the latency scenarios only.
    assert (folder / "TEST06" / "verify_accuracy.txt").read_text("utf-8") == (
        "First token check pass: Skipped\nEOS check pass: True\nSample length check pass: True\n"
        "TEST06 verification complete\n"
    )
    assert "tokens counted by the server" in (folder / "README.md").read_text("utf-8")


def test_accuracy_of_a_log_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`assay accuracy` knows the embedded stories' right answers; one of 500 is wrong here."""
    from assay.cli import main

    stories = open_stories(None)
    log = []
    for index in range(len(stories)):
        tokens = list(stories.reference(index))[: None if index else -2]
        data = b"".join(token.to_bytes(4, "little") for token in tokens).hex().upper()
        log.append({"seq_id": index, "qsl_idx": index, "data": data, "token_count": len(tokens)})
    (tmp_path / "mlperf_log_accuracy.json").write_text(json.dumps(log), "utf-8")
    command = ["accuracy", str(tmp_path), "--benchmark", "stories", "--no-progress"]
    assert main(command) == 0
    assert "{'exact_match': 99.8000, 'tokens_per_sample': 48.798" in capsys.readouterr().out
    assert main([*command, "--grader", "true"]) == 2
    assert "stories has none" in capsys.readouterr().err
