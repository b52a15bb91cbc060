"""Code in answers, run by a command of the user's choice: nothing of this package runs it.

Programs that a model wrote are untrusted. The command decides where they run (a container without a
network, another machine) and with which tests.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence

from runner.errors import RunFailed, SettingsError


class Grader:
    """A command that runs programs against their tests.

    For each answer it gets one line on its standard input, {"question_id": …, "code": …}, and for each
    it prints one line, true or false, in the same order.

    Raises:
        SettingsError: the command is empty or its quotes do not match.
    """

    def __init__(self, command: str) -> None:
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise SettingsError(f"--grader {command}: cannot be read ({error})") from error
        if not self._command:
            raise SettingsError("--grader: found no command; expected one that grades code.")

    def __call__(self, answers: Sequence[tuple[str, str]]) -> list[bool]:
        """Whether each program passes all tests of its question.

        Args:
            answers: (question's id, program).

        Raises:
            RunFailed: the command cannot be started, fails, or prints something else.
        """
        lines = [json.dumps({"question_id": name, "code": code}) + "\n" for name, code in answers]
        shown = shlex.join(self._command)
        try:
            done = subprocess.run(
                self._command, input="".join(lines).encode(), stdout=subprocess.PIPE, check=False
            )
        except OSError as error:
            raise RunFailed(f"--grader {shown}: cannot be started ({error}).") from error
        if done.returncode:
            raise RunFailed(f"--grader {shown}: found exit status {done.returncode}; expected 0.")
        words = done.stdout.decode("utf-8", "replace").split()
        if len(words) != len(answers) or not set(words) <= {"true", "false"}:
            raise RunFailed(
                f"--grader {shown}: found {len(words):,} words of output; expected {len(answers):,} "
                "lines, each true or false."
            )
        return [word == "true" for word in words]
