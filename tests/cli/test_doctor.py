"""`prereg doctor`: what is here, what isn't, and the step that helps."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prereg.cli import probe, surroundings
from tests.cli.conftest import Run


def told(run: Run, *arguments: str) -> tuple[int, dict[str, dict[str, Any]], bool]:
    """Return exit code, checks by name, and whether the study can be answered."""
    done = run("doctor", *arguments, "--json")
    document = json.loads(done.stdout)
    return done.exit_code, {c["name"]: c for c in document["checks"]}, document["can_be_answered"]


def test_a_study_with_evidence_can_be_answered_without_a_network(project: Path, run: Run) -> None:
    """0; the next command is the one that answers; the registration is told as it stands."""
    code, checks, able = told(run, "--offline")
    assert (code, able) == (0, True)
    assert checks["answers sample"]["next"] == "prereg verdicts gates/sample --model pythia-tiny"
    assert checks["study sample"]["state"] == "ok"
    assert checks["study sample"]["words"].startswith("registered ")
    assert checks["git"]["words"] == "the whole history is here"
    assert checks["network"]["words"] == "not asked: --offline"


def test_a_model_that_can_t_be_had_is_1_and_says_why(project: Path, run: Run) -> None:
    """No evidence, no model, no network: nothing can be answered, and the fetch is named."""
    code, checks, able = told(run, "--offline", "--model", "smollm2-135m")
    assert (code, able) == (1, False)
    found = checks["answers sample"]
    assert found["state"] == "missing"
    assert "smollm2-135m is not here" in found["words"]
    assert found["next"] == "prereg models --fetch smollm2-135m"


def test_analyses_of_installed_packages_are_named(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Beside this package's own, with the package that each comes from."""
    info = tmp_path / "site" / "lens_kit-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lens-kit\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prereg.analyses]\nlogit_lens = lens_kit.logit_lens\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    _, checks, _ = told(run, "--offline")
    assert checks["analyses"]["words"].startswith("updates, kernels, ")
    assert checks["analyses"]["words"].endswith(", logit_lens of lens-kit")


@pytest.mark.parametrize(
    ("model", "reached", "code"),
    [
        ("smollm2-135m", "index", 0),
        ("smollm2-135m", "hub", 1),
        ("pythia-410m", "hub", 0),
        ("pythia-410m", "index", 1),
        ("org/name", "hub", 1),
    ],
)
def test_a_model_is_to_be_had_where_its_own_source_answers(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch, model: str, reached: str, code: int
) -> None:
    """The hub's answer says nothing of the index, nor the other way round; of a model that nobody listed, neither."""
    for name in ("hub", "index"):
        check = surroundings.Check(name, "ok" if name == reached else "note", "said so")
        monkeypatch.setattr(surroundings, f"{name}_check", lambda _, check=check: check)
    assert told(run, "--model", model)[0] == code


def test_extras_that_nothing_lists_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run from source without metadata, nothing shows that torch's companions are installed."""

    def away(_: str) -> list[str]:
        raise metadata.PackageNotFoundError

    listed = ["torch; extra == 'capture'", 'no-such-package-here>=1; extra == "capture"', "numpy>=2"]
    monkeypatch.setattr(surroundings.metadata, "requires", lambda _: listed)
    assert surroundings.missing_of("capture") == ("no-such-package-here",)
    for requires in (lambda _: None, away):
        monkeypatch.setattr(surroundings.metadata, "requires", requires)
        assert surroundings.missing_of("capture") == ("prereg-gates[capture]",)
        assert surroundings.extra_checks() == []


def test_without_the_packages_to_measure_nothing_new_can_be_answered(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is here is no use without torch; evidence that is here needs none."""
    lacking = {"capture": ("torch",)}
    monkeypatch.setattr(surroundings, "missing_of", lambda extra: lacking.get(extra, ()))
    code, checks, _ = told(run, "--offline")
    assert code == 0
    assert checks["extra capture"]["next"] == "pip install 'prereg-gates[capture]'"
    for file in (project / "reports").rglob("*.parquet"):
        file.unlink()
    code, checks, _ = told(run, "--offline")
    assert code == 1
    assert checks["answers sample"]["next"] == "pip install 'prereg-gates[capture]'"


def test_an_unregistered_study_can_be_answered_but_not_claimed(project: Path, run: Run) -> None:
    """An edited promise is told at a glance, with the last word on what may be claimed."""
    file = project / "gates" / "sample" / "protocol.toml"
    file.write_text(file.read_text("utf-8").replace("threshold = 0.1", "threshold = 0.05"), "utf-8")
    done = run("doctor", "--offline")
    assert "TAMPERED" in done.stdout
    assert "No answer may be claimed yet of sample" in done.stdout


def test_a_broken_protocol_is_a_line_and_1(project: Path, run: Run) -> None:
    """The error that a run would end with is told here, with its remedy."""
    (project / "gates" / "sample" / "protocol.toml").write_text("format = 1\n")
    code, checks, _ = told(run, "--offline")
    assert code == 1
    assert checks["study sample"]["state"] == "missing"
    assert "protocol.toml" in checks["study sample"]["words"]


def test_no_study_at_all_is_1(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Emptiness is no health."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREREG_CACHE", str(tmp_path / "cache"))
    code, checks, able = told(run, "--offline")
    assert (code, able) == (1, False)
    assert "there is none" in checks["study"]["words"]


def test_a_folder_that_can_t_be_written_is_named(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file stands where the cache should be, which evidence doesn't need; or where the reports should be."""
    taken = project / "taken"
    taken.write_text("x")
    code, checks, _ = told(run, "--offline", "--cache-dir", str(taken))
    assert (code, checks["cache"]["state"], checks["models"]["state"]) == (0, "missing", "missing")
    assert run("verdicts", "--cache-dir", str(taken)).exit_code == 0
    code, checks, _ = told(run, "--offline", "--report-dir", str(taken))
    assert (code, checks["study sample"]["state"]) == (1, "missing")
    assert str(taken) in checks["study sample"]["words"]
    monkeypatch.setattr(surroundings, "writable", lambda folder: "reports" not in folder.parts)
    code, checks, _ = told(run, "--offline")
    assert code == 1
    assert "can't be written" in checks["answers sample"]["words"]


def test_a_cache_that_can_t_be_made_is_not_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no file can lie, behind a link that leads nowhere, within a file, on a full disk."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    places = [tmp_path / "link", tmp_path / "link" / "in", tmp_path / "file" / "in"]
    places += [Path("/proc/nope")] if Path("/proc/self").exists() else []
    for place in places:
        found = surroundings.cache_check(place)
        assert (found.state, "can't be" in found.words) == ("missing", True), place
        assert "will be made" not in found.words
        assert found.next is not None
    assert "will be made" in surroundings.cache_check(tmp_path / "new" / "cache").words
    usage = SimpleNamespace(total=10, used=10, free=0)
    monkeypatch.setattr(surroundings.shutil, "disk_usage", lambda _: usage)
    assert "disk is full" in surroundings.cache_check(tmp_path / "new").words
    monkeypatch.setattr(surroundings.shutil, "disk_usage", lambda _: SimpleNamespace(total=0, free=0))
    assert surroundings.cache_check(tmp_path / "new").words.endswith("can't be made")


def test_a_next_step_is_one_line_however_narrow_the_terminal(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there to be copied."""
    monkeypatch.setenv("COLUMNS", "40")
    lines = [line.strip() for line in run("doctor", "--offline").stdout.splitlines()]
    assert "next: prereg verdicts gates/sample --model pythia-tiny" in lines


def test_nothing_is_written(project: Path, run: Run) -> None:
    """Every file is there as it was, and none is new but what the cache remembers of local models."""

    def seen() -> set[tuple[str, int]]:
        return {
            (str(f), f.stat().st_mtime_ns)
            for f in project.rglob("*")
            if f.is_file() and not {".git", "hashes"} & set(f.relative_to(project).parts)
        }

    before = seen()
    run("doctor", "--offline")
    assert seen() == before


def test_torch_is_not_loaded_to_say_that_it_is_there(project: Path) -> None:
    """Its metadata is enough; --device asks in a process of its own."""
    code = (
        "import sys; from prereg.cli import app\n"
        "try: app(['doctor', '--offline'])\nexcept SystemExit as end: print(end.code, file=sys.stderr)\n"
        "print(*[m for m in ('torch', 'transformers', 'huggingface_hub') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["0"]
    assert "not asked; torch" in done.stdout


def test_a_network_that_doesn_t_answer_is_waited_for_briefly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What takes too long is said to, and is no failure by itself."""
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    real = subprocess.run
    monkeypatch.setattr(surroundings, "LONG", 0.2)
    monkeypatch.setattr(surroundings.subprocess, "run", lambda _, **options: real(sleeper, **options))
    for found in (surroundings.hub_check(tmp_path), surroundings.index_check("some-package")):
        assert found.state == "note"
        assert "no answer within" in found.words


@pytest.mark.parametrize(("rc", "state"), [(0, "ok"), (1, "note")])
def test_what_the_network_says_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rc: int, state: str
) -> None:
    """Reached or not is decided by the exit code; the words are printable whatever was said."""
    said = subprocess.CompletedProcess([], rc, stdout="first\nlast \x1b[31mline\n", stderr="")
    monkeypatch.setattr(surroundings, "_run", lambda *_: said)
    found = surroundings.hub_check(tmp_path)
    assert (found.state, found.words) == (state, "last ?[31mline")
    assert surroundings.index_check("some-package").state == state


def test_devices_are_asked_in_a_process_that_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that can't be loaded is missing, with its own last words; one that can is ok."""
    assert surroundings.device_check(asked=False).next == "prereg doctor --device"
    broken = subprocess.CompletedProcess([], 1, stdout="", stderr="Traceback\nImportError: libcudart.so")
    monkeypatch.setattr(surroundings, "_run", lambda *_: broken)
    found = surroundings.device_check(asked=True)
    assert (found.state, "libcudart" in found.words) == ("missing", True)
    fine = subprocess.CompletedProcess([], 0, stdout="cpu\n", stderr="")
    monkeypatch.setattr(surroundings, "_run", lambda *_: fine)
    assert surroundings.device_check(asked=True).state == "ok"


def test_a_probe_puts_an_error_on_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub that is told not to answer gives 1 and a line; a library that isn't there, too."""
    from prereg.errors import ModelUnavailable

    def away(_: Path) -> str:
        raise ModelUnavailable("the hub\nis away", remedy="wait")

    monkeypatch.setattr(probe, "_hub", away)
    assert probe.main("hub", "cache") == 1
    assert capsys.readouterr().out == "the hub is away\n"
    monkeypatch.setitem(sys.modules, "prereg.activations.models.devices", None)
    assert probe.main("device") == 1


def test_a_shallow_clone_and_no_repository_are_told(tmp_path: Path, project: Path) -> None:
    """Each with the command that helps."""
    clone = tmp_path / "clone"
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", f"file://{project}", str(clone)],
        check=True,
        capture_output=True,
    )
    assert surroundings.git_check(clone).next == "git fetch --unshallow"


def test_help_teaches(run: Run) -> None:
    """Exit codes and examples stand in the help."""
    text = run("doctor", "--help").stdout
    for part in ("Exit codes:", "Examples:", "--offline", "prereg doctor --device"):
        assert part in text
