"""docs/commands.md says what the commands' own help says, and all of it."""

from __future__ import annotations

import pytest

from tests.cli.reference import PAGE, exit_codes, page
from tests.cli.walking import COMMANDS, name_of, options_of


def test_the_page_is_up_to_date() -> None:
    """Where it isn't: python -m tests.cli.reference."""
    assert PAGE.read_text("utf-8") == page(), "make it again: python -m tests.cli.reference"


@pytest.mark.parametrize("path", COMMANDS, ids=name_of)
def test_each_command_has_its_section_with_every_option(path: tuple[str, ...]) -> None:
    """Made by hand or by machine: nothing is left out."""
    text = PAGE.read_text("utf-8")
    heading = f"\n{'#' * (len(path) + 1)} {name_of(path)}\n"
    assert text.count(heading) == 1
    section = text.partition(heading)[2].partition("\n#")[0]
    for flag in options_of(COMMANDS[path]):
        assert f"`{flag}" in section, flag


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("Do.\n\nExit codes: 0 written; 2 refused, and why.", {0: "written", 2: "refused, and why"}),
        (
            "Do.\n\n\b\nExit codes, as here:\n  0  fine\n     indeed\n  130  not\n",
            {0: "fine indeed", 130: "not"},
        ),
        ("Do.", {}),
    ],
)
def test_exit_codes_are_read_from_a_help(text: str, codes: dict[int, str]) -> None:
    """On one line, or one a line with words that go on."""
    assert exit_codes(text) == codes


def test_a_section_without_codes_is_an_error() -> None:
    """A help that promises codes and names none can't be shown as a table."""
    with pytest.raises(ValueError, match="no exit code"):
        exit_codes("Do.\n\nExit codes: see elsewhere.")
