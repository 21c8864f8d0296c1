"""Evidence of somebody's own analysis is refused where no verdict could be trusted to it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from prereg.activations.view import Activations
from prereg.analysis.authoring import held_out_table, random_activations
from prereg.analysis.soundness import Asked, require_sound
from prereg.errors import AnalysisError
from prereg.evidence import Evidence


@pytest.fixture
def activations() -> Activations:
    """Made-up ones."""
    return random_activations()


def table(activations: Activations) -> pa.Table:
    """Return a good table with one value."""
    shape = (int(activations.held_out.sum()), activations.n_layers)
    return held_out_table(activations, {"value.x": np.ones(shape), "norm2.x": np.full(shape, np.nan)})


def with_column(good: pa.Table, name: str, values: list[object], kind: pa.DataType) -> pa.Table:
    """Return the table with a column replaced."""
    return good.set_column(good.column_names.index(name), name, pa.array(values, kind))


def test_a_whole_table_is_taken(activations: Activations) -> None:
    """A null in a column that no claim is about is allowed."""
    require_sound(
        Evidence(table(activations), {"notes": pa.table({"a": [1]})}), Asked.of(activations), "one.py"
    )


def test_what_is_no_evidence_is_named(activations: Activations) -> None:
    """A plain table, say."""
    with pytest.raises(AnalysisError, match=r"one.py: measure returned Table, wanted Evidence"):
        require_sound(table(activations), Asked.of(activations), "one.py")


def _training(good: pa.Table, activations: Activations) -> pa.Table:
    trained = activations.prompts[int(np.flatnonzero(~activations.held_out)[0])]
    return with_column(good, "prompt", [trained, *good["prompt"].to_pylist()[1:]], pa.string())


def _foreign(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return with_column(good, "prompt", ["nobody", *good["prompt"].to_pylist()[1:]], pa.string())


def _mislabelled(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return with_column(good, "subject", ["other"] * good.num_rows, pa.string())


def _beyond(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return with_column(good, "update", [99, *good["update"].to_pylist()[1:]], pa.int16())


def _twice(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return pa.concat_tables([good, good.slice(0, 1)])


def _short(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return good.slice(1)


def _wide(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return with_column(good, "update", good["update"].to_pylist(), pa.int64())


def _nan(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return with_column(good, "value.x", [float("nan"), *good["value.x"].to_pylist()[1:]], pa.float64())


def _null(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return with_column(good, "value.x", [None, *good["value.x"].to_pylist()[1:]], pa.float64())


def _single(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return with_column(good, "value.x", good["value.x"].to_pylist(), pa.float32())


def _negative(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return good.append_column("sse.x", pa.array([-1.0] * good.num_rows))


def _huge(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return with_column(good, "value.x", [1e101] * good.num_rows, pa.float64())


def _uncounted(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return good.append_column("cases.x", pa.array([0.5] * good.num_rows))


def _flat(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return good.append_column("sst", pa.array([0.0] * good.num_rows))


def _doubled(good: pa.Table, activations: Activations) -> pa.Table:
    del activations
    return good.append_column("value.x", good["value.x"])


@pytest.mark.parametrize(
    ("bend", "words"),
    [
        (_training, "is a training prompt"),
        (_foreign, "is none of the prompts"),
        (_mislabelled, "is labelled"),
        (_beyond, r"updates \[99\] are none of 0 to 3"),
        (_twice, "have several rows"),
        (_short, "1 rows of 16 prompts and 4 updates are missing"),
        (_wide, "the columns update are not what they must be"),
        (_nan, "value.x holds NaN"),
        (_null, "value.x holds nothing somewhere"),
        (_single, "value.x holds float, wanted float64"),
        (_negative, "sse.x holds numbers below 0"),
        (_huge, "value.x holds numbers beyond 1e"),
        (_uncounted, "cases.x holds numbers other than 0 and 1"),
        (_flat, "sst holds nothing but 0"),
        (_doubled, "the columns value.x stand twice"),
    ],
)
def test_what_no_verdict_could_rest_on_is_refused(activations: Activations, bend: object, words: str) -> None:
    """Before it is written, with what is wrong."""
    assert callable(bend)
    bent = bend(table(activations), activations)
    with pytest.raises(AnalysisError, match=words):
        require_sound(Evidence(bent), Asked.of(activations), "one.py")


@pytest.mark.parametrize("name", ["selection", "../x", "", "A b"])
def test_a_side_table_needs_a_name_of_its_own(activations: Activations, name: str) -> None:
    """It becomes a part of a file's name."""
    side = {name: pa.table({"a": [1]})}
    with pytest.raises(AnalysisError, match="no name for a side table"):
        require_sound(Evidence(table(activations), side), Asked.of(activations), "one.py")


def test_a_column_of_another_shape_is_refused(activations: Activations) -> None:
    """Before it is laid out: a transposed one of a square shape can't be told, another can."""
    with pytest.raises(AnalysisError, match=r"value.x has shape \(4, 16\); wanted one number for each of 16"):
        held_out_table(activations, {"value.x": np.ones((4, 16))})


def test_rows_are_prompt_by_prompt(activations: Activations) -> None:
    """Each number stands beside its own prompt and update."""
    held_out = np.flatnonzero(activations.held_out)
    values = np.add.outer(100.0 * np.arange(len(held_out)), [2, 3])
    laid_out = held_out_table(activations, {"value.x": values}, updates=[2, 3])
    for row in laid_out.to_pylist():
        place = held_out.tolist().index(activations.prompts.index(row["prompt"]))
        assert row["value.x"] == 100.0 * place + row["update"]
