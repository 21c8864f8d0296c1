"""Exit codes are a promise to scripts: what the help says of them, and what the commands do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prereg.cli import told
from tests.cli.conftest import Run
from tests.cli.reference import exit_codes
from tests.cli.walking import COMMANDS, ROOT, help_of, name_of
from tests.synthetic import commit

VERDICTS = "reports/sample/pythia-tiny/verdicts.json"

PROMISED: dict[tuple[str, ...], set[int]] = {
    ("new",): {0, 2},
    ("verdicts",): {0, 1, 2},
    ("report",): {0, 1, 2},
    ("summary",): {0, 1, 2},
    ("schema",): {0, 2},
    ("calibrate",): {0, 1, 2},
    ("freeze",): {0, 2},
    ("amend",): {0, 2},
    ("audit",): {0, 1, 2},
    ("diff",): {0, 1, 2},
    ("doctor",): {0, 1, 2},
    ("cache", "verify"): {0, 2},
}
"""The codes that a command's own help explains; all others have the general ones, and never end with 1."""


def as_it_is(project: Path) -> None:
    """Leave a study that stands."""


def bent(project: Path) -> None:
    """Lower a threshold behind the registration's back."""
    file = project / "gates" / "sample" / "protocol.toml"
    file.write_text(file.read_text("utf-8").replace("threshold = 0.1", "threshold = 0.05"), "utf-8")


def bent_and_committed(project: Path) -> None:
    """The same, as history."""
    bent(project)
    commit(project, "Another promise")


def untidy(project: Path) -> None:
    """Leave a file that is in no commit."""
    (project / "gates" / "sample" / "notes.txt").write_text("x")


def without_evidence(project: Path) -> None:
    """Take the evidence away."""
    for file in (project / "reports").rglob("*.parquet"):
        file.unlink()


def damaged(project: Path) -> None:
    """Change an answer on disk."""
    file = project / VERDICTS
    file.write_text(file.read_text("utf-8").replace('"tested": 2', '"tested": 3'), "utf-8")


CASES: list[tuple[str, Callable[[Path], None], int]] = [
    ("verdicts", as_it_is, 0),
    ("verdicts", bent, 1),
    ("verdicts --gate-exit harness", bent, 1),
    ("verdicts", without_evidence, 2),
    ("verdicts --hypothesis H9", as_it_is, 2),
    ("audit", as_it_is, 0),
    ("audit", bent, 1),
    ("audit", untidy, 2),
    ("summary", as_it_is, 0),
    ("summary", bent, 1),
    ("summary", untidy, 2),
    ("report --only badge --out out", as_it_is, 0),
    ("report --only badge --out out", bent, 1),
    ("report --only badge --out out", untidy, 2),
    ("report --only figures --out out", bent, 0),
    ("diff HEAD worktree", as_it_is, 0),
    ("diff HEAD worktree", bent, 1),
    ("diff HEAD~1 HEAD", bent_and_committed, 1),
    ("diff HEAD nowhere", as_it_is, 2),
    ("doctor --offline", as_it_is, 0),
    ("doctor --offline --model smollm2-135m", as_it_is, 1),
    ("doctor --offline nowhere", as_it_is, 2),
    (f"schema --check {VERDICTS}", as_it_is, 0),
    (f"schema --check {VERDICTS}", damaged, 2),
    ("freeze", as_it_is, 2),
    ("new 9", as_it_is, 2),
    ("models", as_it_is, 0),
    ("models --fetch nobody's", as_it_is, 2),
    ("measure", as_it_is, 0),
    ("measure --analysis none", as_it_is, 2),
    ("capture --arm nobody", as_it_is, 2),
    ("cache verify", as_it_is, 0),
    ("cache remove zz", as_it_is, 2),
    ("nothing", as_it_is, 2),
]


def test_the_root_s_help_has_the_one_table() -> None:
    """All codes that the commands use, and no other."""
    codes = exit_codes(help_of(ROOT))
    assert list(codes) == [0, told.NOT_SUPPORTED, told.ERROR, told.BUG, told.INTERRUPTED]
    for name in ("verdicts", "audit", "report", "summary", "doctor", "diff", "calibrate"):
        assert name in codes[told.NOT_SUPPORTED], name


@pytest.mark.parametrize("path", COMMANDS, ids=name_of)
def test_each_command_s_help_says_its_own(path: tuple[str, ...]) -> None:
    """A command whose codes mean more than the general table says explains them; no other has a section."""
    assert set(exit_codes(help_of(COMMANDS[path]))) == PROMISED.get(path, set())


def test_a_command_that_can_end_with_1_is_in_the_root_s_table() -> None:
    """Whoever reads only `prereg --help` knows which commands 1 can come from."""
    said = exit_codes(help_of(ROOT))[told.NOT_SUPPORTED]
    for path, codes in PROMISED.items():
        assert (1 in codes) is (" ".join(path) in said), path


@pytest.mark.parametrize(("words", "make", "code"), CASES)
def test_a_command_ends_as_promised(
    words: str, make: Callable[[Path], None], code: int, project: Path, run: Run
) -> None:
    """With and without --json the same code."""
    make(project)
    found = run(*words.split(), "--json")
    assert found.exit_code == code, found.output
    if not words.startswith(
        ("verdicts", "report")
    ):  # these write, and the second run finds what the first one wrote
        assert run(*words.split()).exit_code == code
