"""Which token rows train: never a row that later fits are judged on, none twice, none that drowns the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prereg.activations.view import Activations, Tokens
from prereg.analysis.dictionaries.rows import rows_digest, scaled_rows, select_rows
from prereg.errors import AnalysisError
from tests.analysis.dictionaries import worlds
from tests.analysis.dictionaries.worlds import BRIEF, LENGTH

WORLD = worlds.world()


def owners(activations: Activations, rows: np.ndarray) -> set[str]:
    """Return the subjects whose rows these are."""
    tokens = activations.tokens
    assert tokens is not None
    prompts = np.searchsorted(tokens.offsets, rows, side="right") - 1
    return {tokens.subjects[p] for p in prompts}


def test_no_row_belongs_to_a_subject_that_counts_as_unseen() -> None:
    """Rows come from dictionary subjects and from outside the study; fresh prompts are all the others'."""
    chosen = select_rows(WORLD, BRIEF)
    # Rows shared by several subjects are a template's beginning; from the subject's token on they are one's own.
    own = chosen.rows[(chosen.rows % LENGTH) >= 3]
    fresh = {s for s, new in zip(WORLD.subjects, chosen.fresh, strict=True) if new}
    held_out = {s for s, out in zip(WORLD.subjects, WORLD.held_out, strict=True) if out}
    assert held_out < fresh
    assert owners(WORLD, own).isdisjoint(fresh)
    assert owners(WORLD, own) == (set(WORLD.tokens.subjects) - fresh)


def test_half_of_the_training_subjects_stay_fresh() -> None:
    """The share counts training subjects only."""
    chosen = select_rows(WORLD, BRIEF)
    training = {s for s, out in zip(WORLD.subjects, WORLD.held_out, strict=True) if not out}
    seen = {s for s, new in zip(WORLD.subjects, chosen.fresh, strict=True) if not new}
    assert seen < training
    assert len(seen) == len(training) / 2


def test_a_prompt_outside_the_sample_about_a_held_out_subject_does_not_train() -> None:
    """What the study leaves out of its sample is still about somebody: held-out subjects stay unseen."""
    kept = np.array([i for i, p in enumerate(WORLD.prompts) if p != "p00-1"])
    smaller = replace(
        WORLD,
        **{
            name: tuple(getattr(WORLD, name)[i] for i in kept)
            for name in ("prompts", "subjects", "relations", "templates")
        },
        held_out=WORLD.held_out[kept],
        resid=WORLD.resid[:, kept],
        tokens=replace(WORLD.tokens, selected=WORLD.tokens.selected[kept]),
    )
    rows = select_rows(smaller, BRIEF).rows
    assert "s00" not in owners(smaller, rows[(rows % LENGTH) >= 3])


def test_the_first_position_does_not_train() -> None:
    """Position 0 carries massive activations."""
    assert not np.any(select_rows(WORLD, BRIEF).rows % LENGTH == 0)


def test_of_rows_with_the_same_tokens_so_far_one_is_kept() -> None:
    """Prompts of one template share their beginning, and so its rows."""
    chosen = select_rows(WORLD, BRIEF)
    stream = WORLD.tokens.stream[1][chosen.rows]
    assert len(np.unique(stream, axis=0)) == len(chosen.rows)
    beginnings = chosen.n_prompts * 2
    assert chosen.duplicates == beginnings - 2 * worlds.TEMPLATES
    assert len(chosen.rows) == chosen.n_prompts * (LENGTH - 1) - chosen.duplicates


def test_readout_rows_are_known() -> None:
    """Each training prompt's last row, and no other."""
    chosen = select_rows(WORLD, BRIEF)
    assert np.array_equal(chosen.readout, chosen.rows % LENGTH == LENGTH - 1)


def test_a_longer_prompt_does_not_train_on_a_fresh_prompts_readout() -> None:
    """In a causal model a prompt that begins with all of another has the other's readout row."""
    tokens = WORLD.tokens
    first_fresh = int(tokens.selected[np.flatnonzero(select_rows(WORLD, BRIEF).fresh)[0]])
    longer = (*tokens.ids[first_fresh], 99)
    at = first_fresh * LENGTH
    stream = np.concatenate([tokens.stream, tokens.stream[:, at : at + LENGTH], tokens.stream[:, :1]], axis=1)
    wider = Tokens((*tokens.ids, longer), (*tokens.subjects, "elsewhere"), stream, tokens.selected)
    rows = select_rows(replace(WORLD, tokens=wider), BRIEF).rows
    added = rows[rows >= tokens.stream.shape[1]] - tokens.stream.shape[1]
    assert LENGTH - 1 not in added
    assert LENGTH in added


def test_the_order_of_prompts_does_not_choose_the_subjects() -> None:
    """Subjects are sorted before the seed draws from them."""
    order = np.random.default_rng(1).permutation(len(WORLD.prompts))
    shuffled = replace(
        WORLD,
        **{
            name: tuple(getattr(WORLD, name)[i] for i in order)
            for name in ("prompts", "subjects", "relations", "templates")
        },
        held_out=WORLD.held_out[order],
        resid=WORLD.resid[:, order],
        tokens=replace(WORLD.tokens, selected=WORLD.tokens.selected[order]),
    )
    assert np.array_equal(select_rows(shuffled, BRIEF).rows, select_rows(WORLD, BRIEF).rows)
    assert np.array_equal(select_rows(shuffled, BRIEF).fresh, select_rows(WORLD, BRIEF).fresh[order])


def test_too_few_rows_are_refused() -> None:
    """A batch that no rows fill would train on the same rows again and again."""
    with pytest.raises(AnalysisError, match="at least one batch of 100000"):
        select_rows(WORLD, BRIEF.model_copy(update={"batch": 100_000}))


def test_prompts_of_one_token_give_no_rows() -> None:
    """Only position 0 is left out of them, and nothing remains."""
    tokens = WORLD.tokens
    short = Tokens(
        tuple((i,) for i in range(len(tokens.ids))),
        tokens.subjects,
        tokens.stream[:, :: worlds.LENGTH],
        tokens.selected,
    )
    with pytest.raises(AnalysisError, match="0 different token rows"):
        select_rows(replace(WORLD, tokens=short), BRIEF)


@pytest.mark.parametrize("share", [0.001, 0.999])
def test_a_share_that_leaves_a_side_empty_is_refused(share: float) -> None:
    """Somebody must train dictionaries, and somebody must be left for later fits."""
    with pytest.raises(AnalysisError, match="training subjects"):
        select_rows(WORLD, BRIEF.model_copy(update={"share": share}))


def test_without_token_positions_there_is_nothing_to_train_on() -> None:
    """The error says which setting captures them."""
    with pytest.raises(AnalysisError, match="position"):
        select_rows(replace(WORLD, tokens=None), BRIEF)


def test_long_rows_are_shortened_and_counted() -> None:
    """A row of 1000 median lengths keeps its direction, not its weight."""
    stream = WORLD.tokens.stream.astype(np.float64).copy()
    rows = select_rows(WORLD, BRIEF).rows
    for row in rows[:3]:
        stream[1:, row] += 1000.0 * (stream[1, row] - stream[0, row])
    capped = scaled_rows(stream, rows, 0, 10.0)
    lengths = np.linalg.norm(capped.values, axis=1)
    assert capped.capped == pytest.approx(3 / len(rows))
    assert lengths.max() <= 10.001 * np.median(lengths)
    # Without a cap the three would be nearly all there is to explain, and the others nearly nothing.
    free = np.square(scaled_rows(stream, rows, 0, 1e9).values).sum(axis=1)
    energy = np.square(capped.values).sum(axis=1)
    assert free[:3].sum() / free.sum() > 0.98
    assert energy[:3].sum() / energy.sum() < 0.5
    direction = stream[1, rows[0]] - stream[0, rows[0]]
    cosine = capped.values[0] @ direction / np.linalg.norm(capped.values[0]) / np.linalg.norm(direction)
    assert cosine == pytest.approx(1.0)


def test_scaled_rows_have_unit_spread() -> None:
    """Whatever the layer's size, training sees the same scale, and the scale is told."""
    rows = select_rows(WORLD, BRIEF).rows
    plain = scaled_rows(WORLD.tokens.stream, rows, 0, 10.0)
    larger = scaled_rows(WORLD.tokens.stream * np.float32(64), rows, 0, 10.0)
    assert np.mean((plain.values - plain.mean) ** 2) == pytest.approx(1.0, rel=1e-5)
    assert larger.scale == pytest.approx(64 * plain.scale)
    assert np.allclose(larger.values, plain.values, atol=1e-5)


def test_rows_that_do_not_vary_are_refused() -> None:
    """Dividing by their spread would turn rounding into data."""
    rows = select_rows(WORLD, BRIEF).rows
    with pytest.raises(AnalysisError, match="the same"):
        scaled_rows(np.ones((2, WORLD.tokens.stream.shape[1], 4)), rows, 0, 10.0)


def test_rows_that_are_not_finite_are_refused() -> None:
    """NaN in one token row would spread over the dictionary."""
    rows = select_rows(WORLD, BRIEF).rows
    stream = WORLD.tokens.stream.copy()
    stream[1, rows[5], 0] = np.nan
    with pytest.raises(AnalysisError, match="NaN"):
        scaled_rows(stream, rows, 0, 10.0)


def test_the_digest_sees_every_training_value() -> None:
    """One other value in one training row is other data; a value elsewhere is not."""
    chosen = select_rows(WORLD, BRIEF)
    before = rows_digest(WORLD.tokens.stream, chosen, 0)
    stream = WORLD.tokens.stream.copy()
    stream[:, 0] += 1
    assert rows_digest(stream, chosen, 0) == before
    stream[1, chosen.rows[7], 3] += 1e-3
    assert rows_digest(stream, chosen, 0) != before
    assert rows_digest(WORLD.tokens.stream, chosen, 1) != before
