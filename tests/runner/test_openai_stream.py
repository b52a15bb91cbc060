"""Server-sent events cut anywhere are read the same; what is not a stream is an error, never a guess."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.backends.openai_stream import Stream, refusal
from runner.errors import InferenceError

CHAT = (
    ": a comment\n\n"
    'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'
    'data: {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}, "token_ids": [7]}]}\n\n'
    'event: message\ndata: {"choices": [{"index": 0,\ndata:  "delta": {"content": "a\u2028é"}, '
    '"token_ids": [8, 9]}]}\n\n'
    'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
    'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 3}}\n\n'
    "data: [DONE]\n\n"
)


@given(cuts=st.lists(st.integers(0, len(CHAT.encode()))), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_cuts_do_not_matter(cuts: list[int], end: str) -> None:
    data = CHAT.replace("\n", end).encode()
    stream, began = Stream(), []
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    for first, last in pairwise(places):
        began.append(stream.feed(data[first:last]))
    stream.feed(b"\n" if end == "\r" else b"")  # a CR alone may be half of a CRLF
    stream.verify()
    assert (stream.text, stream.tokens, stream.usage) == (["hm", "a\u2028é"], [7, 8, 9], 3)
    assert (stream.finish, stream.chunks, any(began)) == ("stop", 2, True)


def test_the_role_is_not_a_token() -> None:
    stream = Stream()
    role, reasoning = CHAT.encode().split(b"\n\n")[1:3]
    assert stream.feed(role + b"\n\n") is False
    assert stream.feed(reasoning + b"\n\n") is True


@given(st.binary())
def test_garbage_is_an_error_or_no_answer(data: bytes) -> None:
    stream = Stream()
    with pytest.raises(InferenceError):
        stream.feed(b"data: " + data + b"\n\n")
        stream.verify()


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b'{"choices": [{"te', "found a malformed chunk"),
        (b"\xff\xfe", "found a malformed chunk"),
        (b'{"error": {"message": "out of\\nmemory"}}', "in the stream: out of memory."),
        (b'{"message": "overloaded", "type": "x"}', "in the stream: overloaded."),
        (b'{"choices": [{"index": 1, "text": "b"}]}', "a chunk of choice 1; expected one answer"),
    ],
)
def test_chunks_that_are_no_part_of_an_answer(payload: bytes, said: str) -> None:
    with pytest.raises(InferenceError, match=said.replace("(", r"\(")):
        Stream().feed(b"data: " + payload + b"\n\n")


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ("", "cut after 0 chunks: found no \\[DONE\\]"),
        ('data: {"choices": [{"index": 0, "text": "a"}]}\n\n', "cut after 1 chunks"),
        ("data: [DONE]\n\n", "found finish_reason absent; expected stop or length"),
        (
            'data: {"choices": [{"index": 0, "finish_reason": "abort"}]}\n\ndata: [DONE]\n\n',
            "found finish_reason abort",
        ),
    ],
)
def test_answers_without_an_end(sent: str, said: str) -> None:
    stream = Stream()
    stream.feed(sent.encode())
    with pytest.raises(InferenceError, match=said):
        stream.verify()


def test_a_page_is_not_a_stream() -> None:
    with pytest.raises(InferenceError, match="without the blank line that ends an event"):
        Stream().feed(b"x" * (16 * 2**20 + 1))


def test_what_a_refusal_says() -> None:
    assert refusal(b'{"error": {"message": "no\\n model"}}') == "no model"
    assert refusal(b'{"detail": "Not Found"}') == "Not Found"
    assert refusal(b"<html>Bad Gateway</html>") == "<html>Bad Gateway</html>"
    assert refusal(b"") == "(no text)"
