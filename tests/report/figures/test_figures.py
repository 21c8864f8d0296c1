"""Figures: drawn from tracked tables alone, the same bytes each time, and never from half a table."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from prereg.report.figures import FIGURES, Drawn, ReportError, draw_figures, read_tables, write_figures
from prereg.report.figures.style import OUTCOMES
from tests.report.page.audits import REPORTS

MODELS = tuple(sorted(file.parent.name for file in REPORTS.glob("*/verdicts.csv")))
ALONE = {spec.name: spec for spec in FIGURES}


def only_tables(root: Path) -> Path:
    folder = root / "delta_stream"
    for file in REPORTS.rglob("*.csv"):
        if file.parent == REPORTS or file.parent.name in MODELS:
            place = folder / file.relative_to(REPORTS)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    return folder


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Return a folder that holds the study's tables and nothing else: no evidence, no records."""
    return only_tables(tmp_path)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Drawn, ...]:
    """Draw everything once, from a folder that holds tables and nothing else."""
    return draw_figures(read_tables(only_tables(tmp_path_factory.mktemp("reports"))))


def test_the_committed_figures_follow_from_the_committed_tables(drawn: tuple[Drawn, ...]) -> None:
    """Every tracked SVG is, byte by byte, what its tables give; every PNG has its size."""
    from PIL import Image

    for figure in drawn:
        for file, content in figure.files(REPORTS).items():
            assert file.is_file(), f"{file} is missing: prereg report"
            if file.suffix == ".svg":
                assert file.read_bytes() == content, f"{file} is out of date: prereg report"
            else:
                with Image.open(file) as picture:
                    assert picture.width == 1296


def test_each_figure_is_drawn_for_every_model(drawn: tuple[Drawn, ...]) -> None:
    """One figure over all models, and four on each."""
    each = ("r2_by_depth", "cross_band", "orders", "null_draws")
    found = [(d.name, d.model) for d in drawn]
    assert found[0] == ("gates", None)
    assert [pair for pair in found if pair[1]] == [(name, model) for model in MODELS for name in each]


def test_a_table_that_is_not_there_leaves_its_figure_out(tables: Path) -> None:
    """A study has only the tables of its own analyses."""
    (tables / MODELS[0] / "cross_band.csv").unlink()
    found = draw_figures(read_tables(tables), [ALONE["cross_band"]])
    assert [d.model for d in found] == list(MODELS[1:])


def test_a_missing_column_is_named(tables: Path) -> None:
    """A table of another shape is an error, not a figure with a hole."""
    edit(tables / MODELS[0] / "cross_band.csv", "evaluated_on", "asked_of")
    with pytest.raises(ReportError, match=r"cross_band\.csv lacks the columns evaluated_on") as found:
        draw_figures(read_tables(tables), [ALONE["cross_band"]])
    assert found.value.remedy is not None


def test_an_empty_table_is_no_figure(tables: Path) -> None:
    """A heading without rows has nothing to show, and says so."""
    file = tables / MODELS[0] / "orders.csv"
    file.write_text(file.read_text("utf-8").splitlines(keepends=True)[0], "utf-8")
    with pytest.raises(ReportError, match="no rows"):
        draw_figures(read_tables(tables), [ALONE["orders"]])


@pytest.mark.parametrize("value", ["nan", "inf", "much"])
def test_what_is_no_finite_number_is_an_error(tables: Path, value: str) -> None:
    """A number that isn't one is never drawn, and never left out in silence."""
    file = tables / MODELS[0] / "cross_band.csv"
    text = re.sub(
        r"^(model,band_1,band_1,)[^,]*", rf"\g<1>{value}", file.read_text("utf-8"), flags=re.MULTILINE
    )
    file.write_text(text, "utf-8")
    with pytest.raises(ReportError, match=f"column r2 holds '{value}'"):
        draw_figures(read_tables(tables), [ALONE["cross_band"]])


@pytest.mark.parametrize("broken", ['hypothesis,a\n"x', "a,a\n1,2\n", "a,b\n1\n", "a,b\n1,2,3\n"])
def test_a_table_that_is_none_is_an_error(tables: Path, broken: str) -> None:
    """An open quote, a doubled column, a row too short or too long."""
    (tables / MODELS[0] / "orders.csv").write_text(broken, "utf-8")
    with pytest.raises(ReportError, match=r"orders\.csv can't be read"):
        read_tables(tables)


def test_no_reports_are_an_error(tmp_path: Path) -> None:
    """Nothing there, and no model there, are told apart from nothing to draw."""
    with pytest.raises(ReportError, match="no reports"):
        read_tables(tmp_path / "nowhere")
    with pytest.raises(ReportError, match="no model"):
        read_tables(tmp_path)
    with pytest.raises(ReportError, match=r"no verdicts\.csv here"):
        read_tables(tmp_path, ["nobody"])


def test_an_svg_holds_no_time_no_program_and_no_link(tables: Path) -> None:
    """Nothing in it differs from run to run or points elsewhere; it says what it shows to a screen reader."""
    figure = draw_figures(read_tables(tables, [MODELS[0]]), [ALONE["orders"]])[0]
    text = figure.svg.decode()
    assert "matplotlib" not in re.sub(r'id="matplotlib\.axis_[0-9]+"', "", text)
    assert "<dc:date>" not in text
    outside = [url for url in re.findall(r'"(https?://[^"]+)"', text) if "www.w3.org" not in url]
    assert outside == []
    assert (
        '<title id="title">What a further step of history adds: delta_stream on pythia-tiny</title>' in text
    )


def test_the_user_s_own_style_has_no_say(tables: Path) -> None:
    """Whatever matplotlib was told before, the figure is the same."""
    import matplotlib as mpl

    read = read_tables(tables, [MODELS[0]])
    before = draw_figures(read, [ALONE["orders"]])[0].svg
    with mpl.rc_context({"axes.facecolor": "red", "svg.hashsalt": "other", "font.size": 20}):
        assert draw_figures(read, [ALONE["orders"]])[0].svg == before


def test_outcomes_differ_without_colour() -> None:
    """No two outcomes share a marker, so that a grey print says the same."""
    markers = [marker for _, marker, _ in OUTCOMES.values()]
    assert len(set(markers)) == len(markers)


def test_figures_lie_where_no_audit_takes_them_for_a_model(drawn: tuple[Drawn, ...], tmp_path: Path) -> None:
    """A model's figures lie in its own folder, the study's beside the models'; no new folder lies beside those."""
    written = write_figures(drawn, tmp_path)
    folders = {p.parts[0] for file in written if len((p := file.relative_to(tmp_path)).parts) > 1}
    assert folders == set(MODELS)


@pytest.mark.parametrize("standing", ["unregistered", "tampered", ""])
def test_a_gate_that_may_not_be_claimed_has_no_colour(tables: Path, standing: str) -> None:
    """A verdict whose registration doesn't stand is grey, with what the interval says in brackets."""
    for model in MODELS:
        file = tables / model / "verdicts.csv"
        outcome = "unverified" if not standing else "supported"
        text = re.sub(r",(supported|refuted|inconclusive),(\w+),registered,", rf",{outcome},\2,{standing},",
                      file.read_text("utf-8"))  # fmt: skip
        file.write_text(text, "utf-8")
    gates = draw_figures(read_tables(tables), [ALONE["gates"]])[0].svg.decode()
    green = OUTCOMES["supported"][0].lower()
    # Once in the key, as fill and edge; nowhere else.
    assert gates.count(green) <= 3
    assert f"{standing or 'unverified'} (supported)" in gates
