"""Tables of a study of sparse sources: each number by hand from the evidence behind it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from prereg.evidence import Evidence, Provenance
from prereg.report.figure_tables import figure_tables
from prereg.report.source_tables import SOURCE_TABLES, source_tables

L, PROMPTS = 4, 3
Row = dict[str, str]


def evidence(
    columns: Mapping[str, np.ndarray], updates: tuple[int, ...] = (1, 2, 3), **side: pa.Table
) -> Evidence:
    """Return evidence of three prompts; columns broadcast to (PROMPTS, len(updates))."""
    rows = [(p, u) for p in range(PROMPTS) for u in updates]
    table = pa.table(
        {
            "prompt": [f"p{p}" for p, _ in rows],
            "subject": [f"s{p}" for p, _ in rows],
            "relation": ["r"] * len(rows),
            "template": ["t"] * len(rows),
            "update": pa.array([u for _, u in rows], pa.int16()),
            **{name: np.broadcast_to(v, (PROMPTS, len(updates))).ravel() for name, v in columns.items()},
        }
    )
    empty = {name: "x" for name in Provenance.model_fields if Provenance.model_fields[name].annotation is str}
    record = Provenance.model_validate(
        empty
        | {
            "n_layers": L,
            "d_model": 2,
            "n_prompts": PROMPTS,
            "n_subjects": PROMPTS,
            "n_training_prompts": 9,
            "settings": {},
            "libraries": {},
            "update_sets": {"all": [1, 2, 3]},
        }
    )
    return Evidence(table, side, (), record)


def tables(analysis: str, found: Evidence, arm: str = "model") -> dict[str, list[Row]]:
    return {
        name: list(csv.DictReader(io.StringIO(content.decode())))
        for name, content in source_tables({(analysis, arm): found}).items()
    }


def test_a_gain_is_the_difference_of_two_fits_at_each_update() -> None:
    """R2 of the model less that of its readout, in each arm; depth is update / L."""
    sse = np.array([[0.5, 0.25, 0.125]])
    found = evidence({"sst": np.ones((1, 3)), "sse.ssm": sse, "sse.readout_rank": np.full((1, 3), 0.75)})
    rows = tables("state_space", found, "twin-2")["ssm_gain_by_update.csv"]
    assert [(r["arm"], r["update"], r["depth"], r["comparison"], float(r["gain"])) for r in rows] == [
        ("twin-2", "1", "0.25", "rank matched", 0.25),
        ("twin-2", "2", "0.5", "rank matched", 0.5),
        ("twin-2", "3", "0.75", "rank matched", 0.625),
    ]


def test_the_grid_sets_each_pair_beside_its_own_readouts() -> None:
    """Means over updates of R2; the names of the fits carry the sizes."""
    one = np.ones((1, 3))
    found = evidence(
        {
            "sst": one,
            "sse.ssm_n8_r32": one * 0.5,
            "sse.readout_n8_r32": one * 0.75,
            "sse.readout_r32": one * 0.875,
        }
    )
    (row,) = tables("state_space", found)["ssm_grid.csv"]
    assert (row["state"], row["rank"]) == ("8", "32")
    assert [float(row[k]) for k in ("ssm", "readout_parameters", "readout_rank")] == [0.5, 0.25, 0.125]


def test_the_path_is_averaged_over_pairs_of_one_gap() -> None:
    """Two pairs a block apart, one pair two blocks apart."""
    path = pa.table(
        {
            "fit": ["ssm"] * 3,
            "update": [1, 2, 2],
            "source": [0, 1, 0],
            "gap": [1, 1, 2],
            "energy": [0.5, 0.25, 0.125],
        }
    )
    found = evidence({"sst": np.ones((1, 3)), "sse.ssm": np.ones((1, 3))}, path=path)
    rows = tables("state_space", found)["state_path.csv"]
    assert [(r["gap"], float(r["energy"]), r["pairs"]) for r in rows] == [
        ("1", 0.375, "2"),
        ("2", 0.125, "1"),
    ]


def test_an_effect_is_averaged_over_the_prompts_that_it_speaks_of() -> None:
    """Two of three prompts; a candidate that none of them has stays without a number, and stays in the table."""
    cases = np.array([[1.0], [0.0], [1.0]])
    value = np.array([[0.5], [0.0], [0.25]])
    names = [f"{f}{end}" for f in ("feature_000", "feature_001") for end in ("", "_random", "_matched")]
    columns = {}
    for i, name in enumerate(names):
        columns[f"value.{name}"] = value * (2.0 ** -(i % 3)) * (i < 3)
        columns[f"cases.{name}"] = cases * (i < 3)
    candidates = pa.table(
        {
            "update": [2, 2],
            "rank": [0, 1],
            "fit": ["feature_000", "feature_001"],
            "feature": [7, 9],
            "training_effect": [0.5, 0.25],
            "held_out_prompts": [2, 0],
            "held_out_subjects": [2, 0],
        }
    )
    found = evidence(columns | {"value.clean": np.full((3, 1), -1.0)}, (2,), candidates=candidates)
    found_tables = tables("interventions", found)
    first, second = found_tables["causal_effects.csv"]
    assert [float(first[k]) for k in ("effect", "random", "matched")] == [0.375, 0.1875, 0.09375]
    assert (second["effect"], second["feature"], second["prompts"]) == ("", "9", "0")
    assert [(r["fit"], float(r["mean"]), r["prompts"]) for r in found_tables["causal_context.csv"]] == [
        ("clean", -1.0, "3")
    ]


def test_stability_has_a_row_for_each_kind_pair_and_update() -> None:
    """Rows of the evidence are pairs of seeds, and stay apart."""
    cosine = np.arange(9.0).reshape(3, 3) / 16
    endings = ("cosine", "share", "cosine_all", "share_all")
    columns = {f"value.{kind}_{end}": cosine for kind in ("topk", "l1") for end in endings}
    found = evidence(columns | {"value.null_cosine": cosine / 2})
    rows = tables("identifiability", found)["dictionary_stability.csv"]
    assert len(rows) == 2 * 9
    at = next(r for r in rows if (r["kind"], r["pair"], r["update"]) == ("topk", "p1", "3"))
    assert (float(at["cosine"]), float(at["null_cosine"])) == (5 / 16, 5 / 32)


def test_what_an_analysis_tracks_of_itself_is_laid_out_as_it_is() -> None:
    """Memory, dictionaries, and the training curves."""
    memory = pa.table({name: [1.0] for name in SOURCE_TABLES["state_memory.csv"] if name != "arm"})
    found = evidence({"sst": np.ones((1, 3)), "sse.ssm": np.ones((1, 3))}, memory=memory)
    (row,) = tables("state_space", found)["state_memory.csv"]
    assert row == {"arm": "model", **dict.fromkeys(memory.column_names, "1.0")}


def test_prompts_are_counted_where_all_are_asked() -> None:
    """Pairs of seeds are no prompts, and are not counted as such, whichever analysis comes first."""
    endings = ("cosine", "share", "cosine_all", "share_all")
    pairs = evidence({f"value.{k}_{e}": np.ones((1, 1)) for k in ("topk", "null") for e in endings}, (1,))
    pairs = Evidence(pairs.table.slice(0, 2), {}, (), pairs.provenance)
    whole = evidence({"sst": np.ones((1, 3)), "sse.topk_1": np.ones((1, 3))})
    found = figure_tables({("identifiability", "model"): pairs, ("dictionaries", "model"): whole})
    assert found["prompts.csv"].decode().splitlines()[1:] == ["r,3,3"]
