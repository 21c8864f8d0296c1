"""What pins a model's weights: known before any of its files are here, or from the files themselves."""

from __future__ import annotations

from collections.abc import Sequence

from prereg.activations.models import ModelEntry, identity, load_registry, presence, resolve, revision_of
from prereg.errors import ModelError
from prereg.pipeline.options import RunOptions

__all__ = ["pinned_models", "revision"]


def revision(entry: ModelEntry, options: RunOptions) -> str | None:
    """Return a commit or a wheel's sha256 where there is one, else the files' digest.

    None where nothing is pinned and nothing is here yet: fetching will tell.
    """
    pinned = revision_of(entry, options.cache)
    if pinned is None and presence(entry, options.cache).state == "present":
        return identity(entry, options.cache, options.root).digest
    return pinned


def pinned_models(options: RunOptions, also: Sequence[str] = ()) -> dict[str, str]:
    """Return the revision of each model of the registry that is pinned, and of those in `also`.

    Raises
    ------
    ModelError
        If one of `also` is unknown, or nothing pins it yet.
    """
    registry = load_registry()
    found: dict[str, str] = {}
    for alias in registry.aliases:
        entry = resolve(alias, registry=registry, root=options.root)
        pinned = revision(entry, options)
        if pinned is not None:
            found[entry.alias] = pinned
    for name in also:
        entry = resolve(name, registry=registry, root=options.root)
        pinned = revision(entry, options)
        if pinned is None:
            raise ModelError(
                f"{name}: its revision is known once it has been fetched",
                remedy=f"prereg models --fetch {name}",
            )
        found[entry.alias] = pinned
    return found
