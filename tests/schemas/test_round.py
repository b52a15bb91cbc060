"""What a round's data says of itself."""

from __future__ import annotations

from schemas.round import Dataset


def test_the_fewest_samples_of_an_accuracy_run() -> None:
    assert Dataset("d").least("Offline") is None
    assert Dataset("d", 6396).least(None) == 6396
    shorter = Dataset("d", 6396, 4395, {"Interactive": 800, "Server": 9000})
    assert shorter.least("Offline") == shorter.least(None) == 4395
    assert shorter.least("Interactive") == 800
    assert shorter.least("Server") == 6396  # in place of 4395, and no more than there are
