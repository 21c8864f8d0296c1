"""Figures of a study whose tables are still to come: drawn by the contract in the modules' docstrings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from prereg.report.figures import FIGURES, ReportError, draw_figures, read_tables
from tests.report.page.audits import REPORTS

NAMES = ("ssm_gain", "state_path", "causal_effects", "dictionary_stability")


def write(file: Path, columns: str, rows: Sequence[Sequence[object]]) -> None:
    file.write_text("\n".join([columns, *(",".join(map(str, row)) for row in rows), ""]), "utf-8")


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Return the reports of a study with one model and made-up tables."""
    folder = tmp_path / "depth" / "m"
    folder.mkdir(parents=True)
    (folder / "verdicts.csv").write_bytes((REPORTS / "pythia-tiny" / "verdicts.csv").read_bytes())
    arms = ("model", "twin-1")
    write(
        folder / "ssm_gain_by_update.csv",
        "arm,update,depth,comparison,gain,low,high",
        [
            (a, u, u / 8, c, 0.1 * u, 0.0, 0.9)
            for a in arms
            for c in ("rank_matched", "full")
            for u in (1, 2, 3)
        ],
    )
    write(folder / "state_path.csv", "arm,gap,energy", [(a, g, 0.5**g) for a in arms for g in (1, 2, 3)])
    write(
        folder / "causal_effects.csv",
        "update,feature,effect,low,high,random,matched",
        [(u, f"feature_{i}", 0.1 * i, "", "", 0.0, 0.01) for u in (3, 5) for i in range(4)],
    )
    write(
        folder / "dictionary_stability.csv",
        "update,depth,kind,pair,cosine,null_cosine",
        [(u, u / 8, k, p, 0.5, 0.2) for u in (1, 2) for k in ("topk", "l1") for p in ("1-2", "1-3")],
    )
    return tmp_path / "depth"  # fmt: skip


def test_each_is_drawn_where_its_table_is(reports: Path) -> None:
    """All four are drawn, and none that has no table."""
    assert [d.name for d in draw_figures(read_tables(reports)) if d.model] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_demands_its_columns(reports: Path, name: str) -> None:
    """Without any one of its columns a figure is an error."""
    spec = next(figure for figure in FIGURES if figure.name == name)
    file = reports / "m" / spec.needs[0].table
    for column in spec.needs[0].columns:
        text = file.read_text("utf-8")
        file.write_text(text.replace(column, f"{column}_gone", 1), "utf-8")
        with pytest.raises(ReportError, match="lacks the columns"):
            draw_figures(read_tables(reports), [spec])
        file.write_text(text, "utf-8")


def test_a_replication_is_drawn_from_its_tracked_table(reports: Path) -> None:
    """Pooled rows are drawn, rows that weren't pooled are left out, and none at all is said in words."""
    spec = next(figure for figure in FIGURES if figure.name == "replication")
    head = "hypothesis,contrast,worst,k,mu,low,high,direction,threshold,i2,estimates"
    rows = [("H1", "whole", "true", 2, 0.4, 0.1, 0.7, "greater", 0.26, 0.9, "0.3; 0.5"),
            ("H1", "deep", "false", "", "", "", "", "greater", 0.26, "", "0.3; ")]  # fmt: skip
    write(reports / "replication.csv", head, rows)
    (found,) = draw_figures(read_tables(reports), [spec])
    assert found.model is None
    assert b"H1: whole" in found.svg
    assert b"H1: deep" not in found.svg
    write(reports / "replication.csv", head, rows[1:])
    assert b"no contrast could be pooled" in draw_figures(read_tables(reports), [spec])[0].svg


def test_one_fit_s_path_is_one_line_and_three_gains_are_drawn(tmp_path: Path) -> None:
    """A second fit, and a fourth comparison, stay in their tables."""
    from prereg.report.figures.later import draw_ssm_gain, draw_state_path
    from prereg.report.figures.tables import read_tables

    folder = tmp_path / "m"
    folder.mkdir()
    write(folder / "verdicts.csv", "hypothesis", [("H",)])
    rows = [("model", fit, g, 0.5**g) for fit in ("ssm", "ssm_full") for g in (1, 2, 3)]
    write(folder / "state_path.csv", "arm,fit,gap,energy", rows)
    gains = [("model", u, u / 4, f"comparison {i}", 0.1) for i in range(5) for u in (1, 2, 3)]
    write(folder / "ssm_gain_by_update.csv", "arm,update,depth,comparison,gain", gains)
    tables = read_tables(tmp_path)
    (line,) = [x for x in draw_state_path(tables).axes[0].lines if len(x.get_xdata()) > 2]
    assert list(line.get_xdata()) == [1, 2, 3]
    assert len(draw_ssm_gain(tables).axes) == 3
