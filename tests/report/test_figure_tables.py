"""Figure tables against sums small enough to do by hand."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest

from prereg.evidence import Evidence, Provenance
from prereg.report.figure_tables import figure_tables


def provenance(analysis: str, arm: str = "model") -> Provenance:
    return Provenance(
        study="s", analysis=analysis, arm=arm, key="k", model="m", model_source="s", model_revision="r",
        model_digest="d", store_digest="t", protocol_digest="p", facts_sha256="f", settings={},
        source_digest="s", libraries={},
        n_layers=4, d_model=2, n_prompts=2, n_subjects=2, n_training_prompts=4,
        update_sets={"both": [1, 2], "second": [2], "unmeasured": [2, 3]},
    )  # fmt: skip


def kernels(**changes: list[float]) -> Evidence:
    """Two prompts at updates 1 and 2; per update, sst sums to 10 and 20."""
    columns = {
        "sst": [4.0, 6.0, 8.0, 12.0],
        "sst.relation": [8.0, 12.0, 16.0, 24.0],
        "sst.along": [1.0, 1.0, 4.0, 4.0],
        "sst.across": [3.0, 5.0, 4.0, 8.0],
        "sse.history_1": [2.0, 2.0, 5.0, 5.0],
        "sse.history_1.along": [0.5, 0.5, 1.0, 1.0],
        "sse.history_1.across": [1.5, 1.5, 4.0, 4.0],
        "sse.running_sum": [1.0, 4.0, 6.0, 6.0],
        "sse.running_sum_history_1": [1.0, 2.0, 4.0, 4.0],
        **changes,
    }
    table = pa.table(
        {
            "prompt": ["a", "b", "a", "b"],
            "subject": ["A", "B", "A", "B"],
            "relation": ["capital", "symbol", "capital", "symbol"],
            "template": ["t", "t", "t", "t"],
            "update": pa.array([1, 1, 2, 2], pa.int16()),
            **columns,
        }
    )
    draws = pa.table(
        {
            "draw": [0, 0, 1, 1],
            "update": [1, 2, 1, 2],
            "fit": ["shuffled"] * 4,
            "sse": [10.0, 10.0, 12.0, 20.0],
            "sst": [10.0, 20.0, 10.0, 20.0],
        }
    )
    return Evidence(table, {"draws": draws}, (), provenance("kernels"))


def read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def numbers(row: dict[str, str], *names: str) -> list[float]:
    return [float(row[name]) for name in names]


def test_r2_by_update_is_one_minus_sse_over_sst() -> None:
    """At update 1, 1 - 4/10 against the gates' baseline, 1 - 4/20 against the relation's."""
    found = read(figure_tables({("kernels", "model"): kernels()})["r2_by_update.csv"])
    first = next(r for r in found if r["fit"] == "history_1" and r["update"] == "1")
    assert numbers(first, "depth", "r2", "r2_relation") == [0.25, 0.6, 0.8]
    assert first["r2_template"] == first["r2_global"] == ""
    assert {r["fit"] for r in found} == {"history_1", "running_sum", "running_sum_history_1"}


def test_orders_are_means_over_each_measured_set_of_updates() -> None:
    """Mean of 0.6 and 0.5 over both; a set with an unmeasured update has no row."""
    found = read(figure_tables({("kernels", "model"): kernels()})["orders.csv"])
    assert [(r["updates"], r["order"]) for r in found] == [("both", "1"), ("second", "1")]
    assert numbers(found[0], "r2_history", "r2_running_sum", "r2_running_sum_history") == pytest.approx(
        [0.55, 0.45, 0.65]
    )


def test_the_splits_add_up() -> None:
    """Unique = both - running sum; history = unique + common = along + across."""
    row = read(figure_tables({("kernels", "model"): kernels()})["running_sum_split.csv"])[0]
    history, alone, both, unique, common = numbers(
        row, "history", "running_sum", "both", "unique", "common"
    )  # fmt: skip
    assert [unique, common] == pytest.approx([0.2, 0.35])
    assert history == pytest.approx(unique + common)
    assert both == pytest.approx(alone + unique)
    assert sum(numbers(row, "along", "across")) == pytest.approx(history)
    assert float(row["ceiling"]) == pytest.approx((2 / 10 + 8 / 20) / 2)


def test_draws_are_means_over_updates() -> None:
    """Each draw's R2 over a set, in order of draw."""
    found = read(figure_tables({("kernels", "model"): kernels()})["draws.csv"])
    both = [r for r in found if r["updates"] == "both"]
    assert [(r["draw"], float(r["r2"])) for r in both] == [("0", 0.25), ("1", -0.1)]


def test_a_zero_denominator_leaves_the_field_empty() -> None:
    """An update that doesn't vary has no R2, and no mean that would rest on it."""
    content = figure_tables({("kernels", "model"): kernels(sst=[0.0, 0.0, 8.0, 12.0])})
    found = read(content["r2_by_update.csv"])
    assert next(r for r in found if r["update"] == "1")["r2"] == ""
    assert {r["updates"] for r in read(content["running_sum_split.csv"])} == {"second"}


def test_row_order_does_not_change_a_digit() -> None:
    """Sums are exactly rounded, so the tables don't depend on the order of prompts."""
    values = [0.1, 0.7, 1e16, 1.0]
    evidence = kernels(sst=[1.0, 1e16, 3.3, 4.4], **{"sse.history_1": values})
    turned = Evidence(
        evidence.table.take([3, 2, 1, 0]), evidence.side, (), evidence.provenance
    )  # fmt: skip
    one, other = (figure_tables({("kernels", "model"): e}) for e in (evidence, turned))
    assert sorted(one["r2_by_update.csv"].splitlines()) == sorted(other["r2_by_update.csv"].splitlines())
    assert one["running_sum_split.csv"] == other["running_sum_split.csv"]


def test_cross_band_is_the_analysis_own_table() -> None:
    """Every ordered pair of bands, at both scales."""
    side = pa.table(
        {"fit_on": ["a", "a"], "evaluated_on": ["a", "b"], "r2": [0.5, -0.25], "r2_raw": [0.4, None]}
    )
    evidence = Evidence(kernels().table, {"cross_band": side}, (), provenance("band_kernels"))
    content = figure_tables({("band_kernels", "model"): evidence})
    assert content["cross_band.csv"].decode().splitlines()[1:] == [
        "model,a,a,0.5,0.4",
        "model,a,b,-0.25,",
    ]


def test_prompts_are_counted_by_relation() -> None:
    """Held-out prompts and subjects, each once, however many updates they have."""
    found = read(figure_tables({("kernels", "model"): kernels()})["prompts.csv"])
    assert found == [
        {"relation": "capital", "held_out_prompts": "1", "held_out_subjects": "1"},
        {"relation": "symbol", "held_out_prompts": "1", "held_out_subjects": "1"},
    ]


def test_no_evidence_gives_no_tables() -> None:
    """Nothing in, nothing out: no empty table that looks like a result."""
    assert figure_tables({}) == {}


def test_what_became_of_each_fact_is_told() -> None:
    """The selection stands beside the evidence and is passed on as it is."""
    selection = pa.table({"relation": ["capital"], "status": ["held_out"], "prompts": [3]})
    evidence = kernels()
    with_selection = Evidence(
        evidence.table, {**evidence.side, "selection": selection}, (), evidence.provenance
    )
    found = read(figure_tables({("kernels", "model"): with_selection})["selection.csv"])
    assert found == [{"relation": "capital", "status": "held_out", "prompts": "3"}]
