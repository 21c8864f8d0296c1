"""A store's name: the digest of everything that its bytes depend on."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from typing import Any

import blake3

from prereg.activations.store.request import CaptureRequest, TokenizedPrompts
from prereg.errors import ActivationsError

__all__ = [
    "LIBRARIES",
    "PLAN_VERSION",
    "canonical",
    "digest_of",
    "key_fields",
    "library_versions",
    "store_key",
]

LIBRARIES = ("torch", "transformers", "transformer-lens")
"""Packages whose version is part of a store's key."""

PLAN_VERSION = 1
"""Raised whenever the rule that turns prompts into blocks and batches changes."""


def canonical(value: Any) -> bytes:
    """Return JSON with sorted keys and no spaces: equal values, equal bytes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def digest_of(value: Any) -> str:
    """Return the blake3 of the canonical JSON of `value`, in hex."""
    return str(blake3.blake3(canonical(value)).hexdigest())


def library_versions() -> dict[str, str]:
    """Return the installed version of each of `LIBRARIES`, without importing any.

    Raises
    ------
    ActivationsError
        If one isn't installed.
    """
    try:
        return {name: importlib.metadata.version(name) for name in LIBRARIES}
    except importlib.metadata.PackageNotFoundError as error:
        raise ActivationsError(
            f"{error.name} is not installed, and a store's key holds its version",
            remedy='pip install "prereg-gates[capture]"',
        ) from error


def key_fields(
    prompts: TokenizedPrompts,
    request: CaptureRequest,
    *,
    model_digest: str,
    attn_implementation: str,
    versions: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what a store's key is the digest of, by name (our own definition)."""
    if not model_digest:
        raise ActivationsError("a store needs the model's digest, found an empty string")
    return {
        "format": "prereg-store/1",
        "model": model_digest,
        "prompts": prompts.digests(),
        "stacks": list(request.stacks),
        "position": request.position,
        "dtype": request.dtype,
        "attn_implementation": attn_implementation,
        "plan": {
            "version": PLAN_VERSION,
            "token_budget": request.token_budget,
            "threads": request.threads,
            "block_rows": request.block_rows,
        },
        "versions": dict(library_versions() if versions is None else versions),
        **({} if request.registration is None else {"registration": request.registration}),
    }


def store_key(
    prompts: TokenizedPrompts,
    request: CaptureRequest,
    *,
    model_digest: str,
    attn_implementation: str = "sdpa",
    versions: Mapping[str, str] | None = None,
) -> str:
    """Return the key (64 hex digits) under which `capture` stores these activations; imports no torch.

    Parameters
    ----------
    prompts, request
        As given to `capture`.
    model_digest
        The model's identity, as given to `capture`.
    attn_implementation
        The model's ``config._attn_implementation``; transformers' default is ``sdpa``.
    versions
        Versions of `LIBRARIES`; None asks the environment.

    Raises
    ------
    ActivationsError
        If the digest is empty or a library isn't installed.
    """
    return digest_of(
        key_fields(
            prompts,
            request,
            model_digest=model_digest,
            attn_implementation=attn_implementation,
            versions=versions,
        )
    )
