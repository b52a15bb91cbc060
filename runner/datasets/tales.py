"""Synthetic stories: a beginning of three or four sentences, and the end that follows from it.

A grammar makes both; no text was written by people.  What happens in the end is settled by the
beginning (who lives where, who owns what, how far a friend can count), so that a small model can
learn it and an answer is right or wrong to the letter.  It says nothing about how well anything
writes real text.

Stories are lists of tokens: words, and the marks . , : ? ! as tokens of their own.  `join` makes
text of them, `split` tokens of text, `piece` the text that one token adds.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence

MARKS = frozenset(".,:?!")
_TOKEN = re.compile(r"[A-Za-z]+|[.,:?!]")

GIRLS = ("Mia", "Lena", "Nora", "Ida", "Ella", "Rosa")
BOYS = ("Tom", "Ben", "Paul", "Max", "Leo", "Finn")
ANIMALS = ("fox", "owl", "bear", "mouse", "rabbit", "duck", "cat", "dog", "frog", "goat")
NATURES = ("small", "big", "old", "young", "brave", "shy", "kind", "funny")
THINGS = ("kite", "ball", "drum", "boat", "hat", "book", "lamp", "bell")
COLOURS = ("red", "blue", "green", "yellow", "white", "black")
PLACES = ("river", "hill", "barn", "bridge", "forest", "garden", "tower", "lake")
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

_BEGINNING = "{who} the {nature} {animal} lives at the {home} . {She} has a {colour} {thing} ."
_FRIEND = "{friend} the {other} lives at the {place} ."
_COUNTS = "{friend} can count to {number} ."
# What happens, and how it ends.
_TURNS = (
    (
        "One windy day the {thing} is gone .",
        "{who} looks for it at the {home} , but the {thing} is not there . So {she} goes to the "
        "{place} and asks {friend} : where is my {colour} {thing} ? {friend} the {other} says : the "
        "wind has brought it to the {place} . {who} takes the {colour} {thing} home to the {home} .",
    ),
    (
        "One rainy day {friend} has no home .",
        "{who} says : come to the {home} , {friend} ! The {other} goes to the {home} . Now {friend} "
        "the {other} and {who} the {nature} {animal} live there . They play with the {colour} {thing} .",
    ),
    (
        "Today is a feast at the {place} .",
        "{who} brings the {colour} {thing} to {friend} . {friend} says : what a {colour} {thing} ! "
        "The {animal} and the {other} dance at the {place} .",
    ),
    (
        "At night {who} cannot sleep .",
        "{She} takes the {thing} and goes to the {place} . {friend} the {other} is not asleep .",
    ),
)
_COUNTING = "Then {friend} counts : {numbers} ."
_GOODBYE = "Good night , {friend} !"

Story = tuple[list[str], list[str]]
"""Tokens of the beginning, and of the end."""


def draw(
    count: int, seed: int, *, held_out: bool, known: frozenset[str] = frozenset()
) -> list[Story]:
    """Stories without repeats.

    Args:
        held_out: whether owners and things may come together that training never shows.
        known: beginnings, as text, that must not come again.
    """
    source, seen = random.Random(seed), set(known)
    stories: list[Story] = []
    while len(stories) < count:
        story = _story(source, held_out)
        text = join(story[0])
        if text not in seen:
            seen.add(text)
            stories.append(story)
    return stories


def _story(source: random.Random, held_out: bool) -> Story:
    while True:
        who, friend = source.sample(GIRLS + BOYS, 2)
        animal, other = source.sample(ANIMALS, 2)
        home, place = source.sample(PLACES, 2)
        thing, colour = source.choice(THINGS), source.choice(COLOURS)
        if not held_out and zlib.crc32(f"{animal} {thing}".encode()) % 5 == 0:
            continue
        turn, end = source.choice(_TURNS)
        number = source.randrange(len(NUMBERS) + 1)  # 0: nobody counts
        she = "she" if who in GIRLS else "he"
        words = {
            "who": who, "friend": friend, "animal": animal, "other": other, "home": home,
            "place": place, "thing": thing, "colour": colour, "nature": source.choice(NATURES),
            "she": she, "She": she.capitalize(), "number": NUMBERS[number - 1],
            "numbers": " ".join(NUMBERS[:number]),
        }  # fmt: skip
        beginning = [_BEGINNING, _FRIEND, *([_COUNTS] if number else []), turn]
        ending = [end, *([_COUNTING] if number else []), _GOODBYE]
        return (
            " ".join(beginning).format(**words).split(),
            " ".join(ending).format(**words).split(),
        )


def piece(token: str, *, first: bool = False) -> str:
    """The text that a token adds to what stands before it."""
    return token if first or token in MARKS else f" {token}"


def join(tokens: Sequence[str]) -> str:
    """Tokens as text."""
    return "".join(piece(token, first=not place) for place, token in enumerate(tokens))


def split(text: str) -> list[str]:
    """Text as tokens; what is neither word nor mark is left out."""
    return _TOKEN.findall(text)
