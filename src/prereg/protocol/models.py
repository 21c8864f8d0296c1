"""Frozen, closed, strict models of protocol.toml.

Each table of the file is one class here. The models hold promises, not procedure: an analysis' own
settings stay a plain table (`Protocol.analyses`) until the analysis that owns them validates them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from prereg.protocol.base import Closed, Name, Seed, Sentence, Sha256, Text
from prereg.protocol.claims import Claim, Control, Hypothesis, Published

__all__ = [
    "Facts",
    "Inference",
    "Looks",
    "Prompts",
    "Protocol",
    "Split",
    "StudyHead",
    "Twins",
    "UpdateSetSpec",
    "World",
]


class StudyHead(Closed):
    """``[study]``: what the study asks, and whose paper it answers."""

    name: Name
    title: Sentence
    question: Sentence
    source: Sentence


class World(Closed):
    """``[[facts.worlds]]``: a model that was trained on facts of its own is asked those."""

    model: Name
    path: Text
    sha256: Sha256

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        return _relative(path)


class Facts(Closed):
    """``[facts]``: the file of facts, bound by digest; paths are relative to the project's root."""

    path: Text
    sha256: Sha256
    worlds: tuple[World, ...] = ()

    @field_validator("worlds")
    @classmethod
    def _one_each(cls, worlds: tuple[World, ...]) -> tuple[World, ...]:
        if len({world.model for world in worlds}) != len(worlds):
            raise ValueError("a model can have one world only")
        return worlds

    def for_model(self, alias: str) -> Facts | World:
        """Return the facts that the model called `alias` is asked."""
        return next((world for world in self.worlds if world.model == alias), self)

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        return _relative(path)


class Prompts(Closed):
    """``[prompts]``: which facts become prompts of the study.

    ``known`` keeps a prompt when the pretrained model's top next token is the first token of the answer.
    An untrained twin gets the same prompts as its pretrained model.
    """

    inclusion: Literal["known", "all"]
    max_per_template: Annotated[int, Field(ge=1)]
    minimum_per_template: Annotated[int, Field(ge=1)]
    minimum_subjects: Annotated[int, Field(ge=10)]
    seed: Seed
    rationale: Sentence


class Split(Closed):
    """``[split]``: whole subjects go to one side, balanced by relation."""

    unit: Literal["subject"]
    held_out: Annotated[float, Field(gt=0.0, lt=1.0)]
    seed: Seed
    rationale: Sentence


class Capture(Closed):
    """``[capture]``: what is read off the model, where, and how finely."""

    stacks: tuple[Literal["resid", "attn_out", "mlp_out"], ...] = Field(min_length=1)
    position: Literal["last", "all"]
    dtype: Literal["float32"]
    token_budget: Annotated[int, Field(ge=1)]


class Twins(Closed):
    """``[twins]``: untrained networks of the same architecture, one for each seed."""

    seeds: tuple[Seed, ...] = Field(min_length=3)
    rationale: Sentence

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) != len(seeds):
            raise ValueError("each twin needs a seed of its own")
        return seeds


class Looks(Closed):
    """``[inference.looks]``: how often new data may be looked at, and how the alpha is spent on it.

    Each distinct set of data under one registration is a look. The looks are taken as equally spaced; the
    attempts log counts them, and past the last planned one nothing can be claimed any more.
    """

    planned: Annotated[int, Field(ge=2, le=8)]
    spending: Literal["obrien_fleming", "pocock"]
    rationale: Sentence


class Inference(Closed):
    """``[inference]``: how numbers become an interval and an interval a verdict."""

    unit: Literal["subject", "subject_by_template", "subject_in_relation"]
    """What is resampled: subjects; subjects and templates, crossed (pigeonhole); relations, and subjects within."""
    unit_reason: Sentence
    level: Annotated[float, Field(ge=0.5, lt=1.0)]
    equivalence_alpha: Annotated[float, Field(gt=0.0, le=0.25)]
    interval: Literal["expanded_percentile"]
    sensitivity: tuple[Literal["percentile", "basic", "bca", "studentized", "delta_t"], ...] = Field(
        min_length=1
    )
    replicates: Annotated[int, Field(ge=1_000, le=1_000_000)]
    studentized_replicates: Annotated[int, Field(ge=1_000, le=1_000_000)]
    seed: Seed
    minimum_units: Annotated[int, Field(ge=10)]
    looks: Looks | None = None
    """None: one set of data answers, and further ones are counted beside the verdict."""
    rationale: Sentence

    @model_validator(mode="after")
    def _methods_exist(self) -> Inference:
        if self.unit != "subject" and "studentized" in self.sensitivity:
            raise ValueError(
                f"sensitivity: there is no studentized interval of {self.unit}: its resamples hold copies that share "
                "more than one unit; leave it out"
            )
        return self


class UpdateSetSpec(Closed):
    """``[updates.<name>]``: a named set of updates l = 0..L-1, for a model of any depth L.

    Exactly one way of naming it: ``from_depth`` and ``to_depth`` (fractions; update l is in when
    ``from_depth * L <= l < to_depth * L``), ``at_depth`` (the one update ``floor(at_depth * L)``), ``last`` (the
    deepest so many), or ``part_of``, ``part`` and ``parts`` (the part-th, counted from 1, of so many nearly equal
    bands of another set).
    """

    description: Sentence
    from_depth: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    to_depth: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    at_depth: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    last: Annotated[int, Field(ge=1)] | None = None
    part_of: Name | None = None
    part: Annotated[int, Field(ge=1)] | None = None
    parts: Annotated[int, Field(ge=2)] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> UpdateSetSpec:
        given = {
            k
            for k in ("from_depth", "to_depth", "at_depth", "last", "part_of", "part", "parts")
            if getattr(self, k) is not None
        }
        ways = ({"from_depth", "to_depth"}, {"at_depth"}, {"last"}, {"part_of", "part", "parts"})
        if given not in ways:
            raise ValueError(
                "name the set by from_depth and to_depth, by at_depth, by last, or by part_of, part and parts; "
                f"found {sorted(given) or 'none of them'}"
            )
        if self.from_depth is not None and self.to_depth is not None and self.from_depth >= self.to_depth:
            raise ValueError("from_depth must be less than to_depth")
        if self.part is not None and self.parts is not None and self.part > self.parts:
            raise ValueError(f"part {self.part} of only {self.parts} parts")
        return self


class Protocol(Closed):
    """A whole protocol.toml.

    Raises
    ------
    pydantic.ValidationError
        Turned by `read_protocol` into a ProtocolError with file, line and key.
    """

    # Not Literal[1], which takes `true` for 1.
    format: Annotated[int, Field(ge=1, le=1)]
    study: StudyHead
    facts: Facts
    prompts: Prompts
    split: Split
    capture: Capture
    twins: Twins
    inference: Inference
    updates: dict[Name, UpdateSetSpec] = Field(min_length=1)
    analyses: dict[Name, dict[str, Any]] = Field(min_length=1)
    controls: dict[Name, Control] = Field(default_factory=dict)
    hypotheses: dict[Name, Hypothesis] = Field(min_length=1)
    published: dict[Name, Published] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_meet(self) -> Protocol:
        for path, kind, name, known in self._references():
            if name not in known:
                raise ValueError(f"{path}: there is no {kind} {name!r}; there are {', '.join(sorted(known))}")
        if not any(h.family == "primary" for h in self.hypotheses.values()):
            raise ValueError("hypotheses: no hypothesis is primary, so the family is empty")
        self._arms_exist()
        self._bands_resolve()
        self._searches_have_subjects()
        return self

    def _searches_have_subjects(self) -> None:
        claims = {**self.controls, **self.hypotheses}
        searching = [name for name, claim in claims.items() if claim.quantifier == "some"]
        if searching and self.inference.unit != "subject":
            raise ValueError(
                f"{searching[0]}: a search over candidates resamples subjects; [inference] says {self.inference.unit}"
            )

    def _references(self) -> list[tuple[str, str, str, set[str]]]:
        sets, analyses = set(self.updates), set(self.analyses)
        rows = [
            (f"updates.{n}.part_of", "set of updates", s.part_of, sets)
            for n, s in self.updates.items()
            if s.part_of is not None
        ]
        claims: dict[str, Claim] = {
            **{f"controls.{n}": c for n, c in self.controls.items()},
            **{f"hypotheses.{n}": h for n, h in self.hypotheses.items()},
        }
        for where, claim in claims.items():
            rows.append((f"{where}.evidence", "analysis", claim.evidence, analyses))
            rows += [(f"{where}.contrasts", "set of updates", c.updates, sets) for c in claim.contrasts]
        for n, h in self.hypotheses.items():
            rows += [(f"hypotheses.{n}.controls", "control", c, set(self.controls)) for c in h.controls]
            if h.permutation is not None:
                where = f"hypotheses.{n}.permutation.updates"
                rows += [(where, "set of updates", u, sets) for u in h.permutation.updates]
        rows += [(f"published.{n}", "hypothesis", n, set(self.hypotheses)) for n in self.published]
        return rows

    def _arms_exist(self) -> None:
        arms = {"model", *(f"twin-{i}" for i in range(1, len(self.twins.seeds) + 1))}
        for where, claims in (("controls", self.controls), ("hypotheses", self.hypotheses)):
            for name, claim in claims.items():
                for arm in claim.arms:
                    if arm not in arms:
                        raise ValueError(
                            f"{where}.{name}.contrasts: there is no arm {arm!r}; there are "
                            f"{', '.join(sorted(arms))} ([twins] has {len(self.twins.seeds)} seeds)"
                        )

    def _bands_resolve(self) -> None:
        for name in self.updates:
            seen, at = {name}, self.updates[name].part_of
            while at is not None:
                if at in seen:
                    raise ValueError(f"updates.{name}.part_of: the sets name each other in a circle")
                seen.add(at)
                if len(seen) > 32:
                    raise ValueError(f"updates.{name}.part_of: more than 32 sets inside each other")
                at = self.updates[at].part_of

    def resolve_updates(self, n_layers: int) -> dict[str, tuple[int, ...]]:
        """Return every named set of updates for a model of `n_layers` blocks.

        Raises
        ------
        ValueError
            If a set is empty at this depth, or asks for more updates than there are.
        """
        return {name: self._resolve(name, n_layers) for name in self.updates}

    def _resolve(self, name: str, n_layers: int) -> tuple[int, ...]:
        spec = self.updates[name]
        layers: tuple[int, ...]
        if spec.at_depth is not None:
            # The slack keeps 0.1 * 30 from falling to update 2 by rounding.
            layers = (min(n_layers - 1, int(spec.at_depth * n_layers + 1e-9)),)
        elif spec.last is not None:
            layers = tuple(range(max(0, n_layers - spec.last), n_layers)) if spec.last <= n_layers else ()
        elif spec.part_of is not None and spec.part is not None and spec.parts is not None:
            whole = self._resolve(spec.part_of, n_layers)
            size, extra = divmod(len(whole), spec.parts)
            start = (spec.part - 1) * size + min(spec.part - 1, extra)
            layers = whole[start : start + size + (spec.part <= extra)]
        else:
            low, high = (spec.from_depth or 0.0) * n_layers, (spec.to_depth or 1.0) * n_layers
            # The slack keeps 0.1 * 30 from losing update 3 to rounding.
            layers = tuple(i for i in range(n_layers) if low - 1e-9 <= i < high - 1e-9)
        if not layers:
            raise ValueError(f"updates.{name} is empty for a model of {n_layers} blocks")
        return layers


def _relative(path: str) -> str:
    if path.startswith(("/", "~")) or ".." in re.split(r"[/\\]", path):
        raise ValueError(f"a path must lie inside the project, found {path!r}")
    return path
