"""Prompts: the samples of a language benchmark, sent to a server that generates text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from runner.errors import DatasetError

if TYPE_CHECKING:
    from checker.accuracy.reasoning import GradeCode, Question

TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Prompt:
    """What one sample asks: text, or token ids, or a conversation; the first that is not None.

    Attributes:
        tokens: ids of the benchmark's tokenizer.
        text: a prompt as it is, no template applied.
        messages: role and content, for chat completions.
    """

    tokens: Sequence[int] | None = None
    text: str | None = None
    messages: tuple[tuple[str, str], ...] | None = None


class Prompts:
    """A data set of prompts (see `runner.datasets.Dataset`); nothing of it is fed to a graph."""

    def __len__(self) -> int:
        raise NotImplementedError

    def prompt(self, index: int) -> Prompt:
        """The sample's prompt."""
        raise NotImplementedError

    def load(self, indices: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Nothing: prompts are text, not arrays."""
        return {}

    def unload(self, indices: Sequence[int]) -> None:
        """Prompts stay in memory."""


class Table(Prompts):
    """Prompts of a table: token ids in one column, or texts in another, and what is right.

    Args:
        path: the file (see `checker.accuracy.table`), or a folder with one such file; the model's
            tokenizer.json lies beside it or in the folder above.
        tokens, text: columns that may hold the prompt; the first that a row has counts.
        reference: the column with the reference text; "" where there is none.
        longest: tokens that the model has places for.
        part, without: which of several files of a folder, by its name.

    Attributes:
        references: texts in the order of the samples; [] without such a column.
        place: the folder that the tokenizer lies in.

    Raises:
        DatasetError: the file is absent or of another form.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        tokens: tuple[str, ...] = (),
        text: tuple[str, ...] = (),
        reference: str = "",
        longest: int,
        part: str = "",
        without: str = "\0",
    ) -> None:
        from checker.accuracy.table import KINDS, find_table, first_of, read_table, token_ids

        if path is None:
            raise DatasetError(
                "found no data; expected --data FOLDER with the benchmark's data set as "
                f"{', '.join(KINDS)} and the model's {TOKENIZER}."
            )
        if part and not path.is_dir():
            raise DatasetError(
                f"{path}: found one file; expected a folder, because the runs need different data: see "
                "docs/measuring-llms.md."
            )
        self._prompts: list[Prompt] = []
        self.references: list[str] = []
        with _as_dataset_error():
            file = find_table(path, part, without)
            above = file.parent.parent
            beside = (file.parent / TOKENIZER).exists() or not (above / TOKENIZER).exists()
            self.place = file.parent if beside else above
            for number, row in enumerate(read_table(file)):
                ids, words = token_ids(first_of(row, tokens)), first_of(row, text)
                if ids is not None and 0 < len(ids) < longest:
                    prompt = Prompt(tokens=ids)
                elif ids is None and isinstance(words, str) and words:
                    prompt = Prompt(text=words)
                else:
                    forms = [f"{' or '.join(tokens)} (1 to {longest - 1:,} token ids)"] * bool(
                        tokens
                    )
                    forms += [f"{' or '.join(text)} (a text)"] * bool(text)
                    raise DatasetError(
                        f"{file}: sample {number} has no usable prompt; expected "
                        f"{', or '.join(forms)}."
                    )
                if reference and not isinstance(row.get(reference), str):
                    raise DatasetError(
                        f"{file}: sample {number} has no {reference}; expected a text."
                    )
                self._prompts.append(prompt)
                if reference:
                    self.references.append(row[reference])
                self.take(row, f"{file}: sample {number}")
        if not self._prompts:
            raise DatasetError(f"{file}: found no sample.")

    def take(self, row: Mapping[str, Any], where: str) -> None:
        """Keep what else of a row is needed; `where` begins messages."""

    def __len__(self) -> int:
        return len(self._prompts)

    def prompt(self, index: int) -> Prompt:
        return self._prompts[index]


class Questions(Table):
    """A table whose rows also say what is right, for `checker.accuracy.reasoning`.

    Attributes:
        grade_code: what runs the code of answers; None: nothing does.
    """

    def __init__(self, path: Path | None, **columns: Any) -> None:
        self._questions: list[Question | DatasetError] = []
        self.grade_code: GradeCode | None = None
        super().__init__(path, **columns)

    def take(self, row: Mapping[str, Any], where: str) -> None:
        from checker.accuracy.problem import AccuracyError
        from checker.accuracy.reasoning import question_of

        try:
            self._questions.append(question_of(row, where))
        except AccuracyError as error:  # in a performance run nobody asks
            self._questions.append(DatasetError(str(error)))

    @property
    def questions(self) -> list[Question]:
        """In the order of the samples.

        Raises:
            DatasetError: a row does not say what is right.
        """
        found = []
        for question in self._questions:
            if isinstance(question, DatasetError):
                raise question
            found.append(question)
        return found


@contextlib.contextmanager
def _as_dataset_error() -> Iterator[None]:
    from checker.accuracy.problem import AccuracyError

    try:
        yield
    except AccuracyError as error:
        raise DatasetError(str(error)) from error
