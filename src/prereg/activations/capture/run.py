"""`capture`: from a model and tokenised prompts to a verified store, resumable at any moment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import blake3
import numpy as np

from prereg.activations.capture.plan import Plan, make_plan
from prereg.activations.capture.sites import Sites, find_sites, site_names
from prereg.activations.store.files import require_space
from prereg.activations.store.folder import locked
from prereg.activations.store.key import digest_of, key_fields
from prereg.activations.store.layout import (
    Manifest,
    ModelShape,
    PlanRecord,
    array_specs,
    has_manifest,
    side_files,
)
from prereg.activations.store.writer import StoreWriter
from prereg.errors import ActivationsError

if TYPE_CHECKING:
    from prereg.activations.store.reader import Store
    from prereg.activations.store.request import CaptureRequest, TokenizedPrompts
    from prereg.workers import Progress

__all__ = ["capture", "unwrap"]


def unwrap(loaded_or_model: Any) -> Any:
    """Return the transformers model of a LoadedModel, or the model itself."""
    from torch import nn

    # A transformers model may have a `.model` of its own: its body.
    return loaded_or_model if isinstance(loaded_or_model, nn.Module) else loaded_or_model.model


def capture(
    loaded_or_model: Any,
    tokenizer: Any | None,
    prompts: TokenizedPrompts,
    request: CaptureRequest,
    *,
    root: Path,
    model_digest: str,
    provenance: Mapping[str, str],
    progress: Progress | None = None,
) -> Store:
    """Capture activations into ``root/<key>``, or return the store that is already there.

    An interrupted capture is taken up where it stopped, a damaged store repaired: every finished block is
    hashed again, and only what is missing or differs is computed. Two captures of the same thing wait for
    each other. Memory stays at the model's and one block's, whatever the number of prompts.

    Parameters
    ----------
    loaded_or_model
        A LoadedModel, or a transformers causal language model in eval mode and float32.
    tokenizer
        Only used to show a prompt's text in errors; None shows its label alone. Nothing is tokenised here.
    prompts, request
        What to capture, and how.
    root
        The folder of all stores.
    model_digest
        The identity of weights, configuration and tokenizer.
    provenance
        Written in the manifest (a registration's digest, say). Not part of the key: a store that exists
        already keeps the provenance under which it was begun.
    progress
        Told of finished prompts; None for nobody.

    Raises
    ------
    ActivationsError
        If the model or the prompts can't be used, or a value is not finite or doesn't fit float16.
    ParityError
        If transformer-lens disagrees.
    StoreCorrupt, StorageError
        If the folder holds something else, or the disk refuses.
    """
    from prereg.activations.capture.fill import Job
    from prereg.activations.capture.forward import require_usable, torch_threads
    from prereg.workers import NullProgress

    model = unwrap(loaded_or_model)
    largest = max(int(prompts.tokens.max()), max(prompts.answer_ids or (), default=0))
    require_usable(model, int(prompts.lengths.max()), largest)
    sites = find_sites(model)
    sites.require(request.stacks)
    plan = make_plan(prompts, request, _row_bytes(request, sites))
    side = side_files(prompts)
    manifest = _manifest(model, sites, prompts, request, plan, side, model_digest, provenance)
    folder = root / manifest.key
    progress = progress or NullProgress()
    waiting = partial(_step, progress, "waiting for another capture of the same")
    with locked(root, manifest.key, while_waiting=waiting), torch_threads(request.threads):
        begun = has_manifest(folder)
        if not begun:
            require_space(root, manifest.size)
            parity = _pass_gate(model, sites, prompts, request, progress)
            manifest = manifest.model_copy(update={"parity": parity})
        writer = StoreWriter(
            folder, manifest, side, tuple((block.prompts, block.tokens) for block in plan.blocks)
        )
        try:
            if begun and writer.pending:
                _pass_gate(model, sites, prompts, request, progress)
            job = Job(model, tokenizer, sites, prompts, request, plan, writer, prompts.offsets)
            job.fill(progress)
            return writer.finish()
        finally:
            writer.close()


def _pass_gate(
    model: Any, sites: Sites, prompts: TokenizedPrompts, request: CaptureRequest, progress: Progress
) -> dict[str, Any]:
    from prereg.activations.capture.parity import check_parity

    with _step(progress, "checking against transformer-lens"):
        return check_parity(model, sites, prompts, request.token_budget).record()


@contextlib.contextmanager
def _step(progress: Progress, label: str) -> Iterator[None]:
    progress.start(1, label)
    try:
        yield
        progress.advance()
    finally:
        progress.finish()


def _row_bytes(request: CaptureRequest, sites: Sites) -> int:
    layers = sum(sites.n_layers + (stack == "resid") for stack in request.stacks)
    return layers * sites.d_model * np.dtype(np.float32).itemsize


def _manifest(
    model: Any,
    sites: Sites,
    prompts: TokenizedPrompts,
    request: CaptureRequest,
    plan: Plan,
    side: Mapping[str, bytes],
    model_digest: str,
    provenance: Mapping[str, str],
) -> Manifest:
    if not all(isinstance(item, str) for pair in provenance.items() for item in pair):
        raise ActivationsError(f"provenance must be text by name, found {dict(provenance)!r}")
    attention = str(model.config._attn_implementation)
    fields = key_fields(prompts, request, model_digest=model_digest, attn_implementation=attention)
    return Manifest(
        key=digest_of(fields),
        key_fields=fields,
        model=ModelShape(
            architecture=type(model).__name__,
            family=sites.family,
            n_layers=sites.n_layers,
            d_model=sites.d_model,
            attn_implementation=attention,
        ),
        n_prompts=len(prompts.ids),
        n_tokens=int(prompts.lengths.sum()),
        arrays=array_specs(prompts, request, sites.n_layers, sites.d_model),
        sites=site_names(request.stacks, sites.n_layers),
        plan=PlanRecord(
            token_budget=request.token_budget,
            threads=request.threads,
            blocks=len(plan.blocks),
            batches=plan.batches,
            forwarded_prompts=plan.forwarded_prompts,
            forwarded_tokens=plan.forwarded_tokens,
            padded_tokens=plan.padded_tokens,
            digest=plan.digest,
        ),
        side_files={name: blake3.blake3(data).hexdigest() for name, data in side.items()},
        parity={},
        provenance=dict(provenance),
    )
