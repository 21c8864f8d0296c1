"""How updates travel: descriptive columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
import pytest

from prereg.analysis import updates
from prereg.analysis.updates import UpdateSettings
from prereg.workers import Workers
from tests.analysis import planted

WORLD = planted.world(planted.rotations(1, same=True))
SETTINGS = UpdateSettings(baseline="relation", min_stratum_prompts=2)


def test_columns_are_the_lengths_and_angles_of_each_prompt() -> None:
    """One row, by hand: lengths, both cosines, and the named baseline."""
    table = updates.measure(WORLD, SETTINGS, Workers()).table
    row = table.filter(pc.and_(pc.equal(table["prompt"], "p03-0"), pc.equal(table["update"], 2))).to_pylist()[
        0
    ]
    i = WORLD.prompts.index("p03-0")
    delta, previous, v = WORLD.update(2)[i], WORLD.update(1)[i], WORLD.resid[2][i].astype(float)

    assert row["norm2.delta"] == pytest.approx(delta @ delta, rel=1e-12)
    assert row["norm2.running_sum"] == pytest.approx(v @ v, rel=1e-12)
    assert row["cosine.running_sum"] == pytest.approx(
        delta @ v / np.linalg.norm(delta) / np.linalg.norm(v), rel=1e-12
    )
    assert row["cosine.previous"] == pytest.approx(
        delta @ previous / np.linalg.norm(delta) / np.linalg.norm(previous), rel=1e-12
    )
    assert row["sst"] == row["sst.relation"]


def test_what_has_no_angle_is_null_and_not_a_number() -> None:
    """Update 0 has no update before it, and a block that writes nothing has no direction."""
    resid = WORLD.resid.copy()
    resid[4] = resid[3]
    table = updates.measure(replace(WORLD, resid=resid), SETTINGS, Workers()).table

    def cells(name: str, update: int) -> set[float | None]:
        return set(table.filter(pc.equal(table["update"], update))[name].to_pylist())

    assert cells("cosine.previous", 0) == {None}
    assert cells("cosine.running_sum", 3) == {None}
    assert cells("cosine.previous", 4) == {None}
    assert None not in cells("cosine.running_sum", 0)
    assert cells("norm2.delta", 3) == {0.0}


def test_support_is_checked() -> None:
    """The check on the baseline's strata can fail."""
    strict = SETTINGS.model_copy(update={"min_stratum_prompts": 33})

    assert [c.passed for c in updates.measure(WORLD, SETTINGS, Workers()).checks] == [True]
    assert [c.passed for c in updates.measure(WORLD, strict, Workers()).checks] == [False]
