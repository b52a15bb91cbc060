"""Every compliance test by its name: a new one is a module beside this and a line here."""

from __future__ import annotations

from checker.compliance import test01, test04, test05, test06, test07, test08, test09
from checker.compliance.evidence import Test

TESTS: dict[str, Test] = {
    "TEST01": test01.TEST,
    "TEST04": test04.TEST,
    "TEST04-A": test04.PAIR,
    "TEST04-B": test04.SECOND_OF_PAIR,
    "TEST05": test05.TEST,
    "TEST06": test06.TEST,
    "TEST07": test07.TEST,
    "TEST08": test08.TEST,
    "TEST09": test09.TEST,
}
