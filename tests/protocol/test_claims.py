"""Claims that one contrast is enough for, trends, and other units: what fits together and what doesn't."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg.errors import ProtocolError
from prereg.protocol import read_protocol
from prereg.protocol.changes import changes
from prereg.protocol.models import UpdateSetSpec

GOOD = Path(__file__).parents[1] / "data" / "protocol.toml"
SOME = 'direction = "greater"\nthreshold = 0.1\nquantifier = "some"'


def written(tmp_path: Path, *replacements: tuple[str, str]) -> Path:
    """Write the good protocol with some things replaced, each of which must be there."""
    text = GOOD.read_text("utf-8")
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new, 1)
    file = tmp_path / "protocol.toml"
    file.write_text(text, "utf-8")
    return file


GREATER = 'direction = "greater"\nthreshold = 0.1'
FIRST = 'fit = "history_1"'


def test_a_claim_may_be_that_some_candidate_exceeds(tmp_path: Path) -> None:
    """A pattern stands for candidates that only the measurement names."""
    file = written(tmp_path, (GREATER, SOME), (FIRST, 'fit = "feature_*"'))
    claim = read_protocol(file.parent).protocol.hypotheses["H1"]
    assert claim.quantifier == "some"
    assert claim.contrasts[0].is_pattern


@pytest.mark.parametrize(
    ("replacements", "message"),
    [
        ([(FIRST, 'fit = "feature_*"')], 'say quantifier = "some"'),
        ([(GREATER, SOME), (FIRST, 'fit = "*_*"')], "has one"),
        (
            [('direction = "equivalence"', 'direction = "equivalence"\nquantifier = "some"')],
            "near zero is no claim",
        ),
        ([(GREATER, f'{GREATER}\nunit = "update"')], "belong together"),
        ([(GREATER, f"{GREATER}\nblock_length = 3.0")], "block_length belongs to"),
        ([(GREATER, f'{GREATER}\nunit_reason = "These are the independent ones."')], "belong together"),
        (
            [(GREATER, f'{SOME}\nunit = "update"\nunit_reason = "These are the independent ones."')],
            "is about their mean",
        ),
        ([('updates = "deep"\nterms', 'updates = "deep"\nover = "median"\nterms')], "over"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    tmp_path: Path, replacements: list[tuple[str, str]], message: str
) -> None:
    """A search that isn't said to be one, a unit without its reason, a trend of what has none."""
    with pytest.raises(ProtocolError, match=message):
        read_protocol(written(tmp_path, *replacements).parent)


def test_one_contrast_being_enough_is_the_looser_promise() -> None:
    """A reviewer is told so in words."""
    every = {"hypotheses": {"H": {"direction": "greater"}}}
    some = {"hypotheses": {"H": {"direction": "greater", "quantifier": "some"}}}
    assert [c.effect for c in changes(every, some)] == ["looser"]
    assert [c.effect for c in changes(some, every)] == ["stricter"]


@pytest.mark.parametrize(
    ("depth", "n_layers", "update"), [(0.5, 8, 4), (0.5, 30, 15), (0.1, 30, 3), (0.8, 18, 14), (0.0, 4, 0)]
)
def test_a_set_can_be_the_one_update_at_a_depth(
    tmp_path: Path, depth: float, n_layers: int, update: int
) -> None:
    """floor(depth * L), also where the product falls short by rounding."""
    file = written(
        tmp_path,
        (
            "[updates.band]",
            f'[updates.one]\ndescription = "One of them."\nat_depth = {depth}\n\n[updates.band]',
        ),
    )
    assert read_protocol(file.parent).protocol.resolve_updates(n_layers)["one"] == (update,)


def test_a_set_has_one_definition() -> None:
    """at_depth beside last would be two."""
    with pytest.raises(ValueError, match="by at_depth"):
        UpdateSetSpec.model_validate({"description": "Two ways at once.", "at_depth": 0.5, "last": 2})
