"""Stores: captured activations on disk, addressed by content, verified, resumable. No torch here."""

from __future__ import annotations

from prereg.activations.store.folder import StoreInfo, find_store, list_stores, remove_store
from prereg.activations.store.key import store_key
from prereg.activations.store.reader import Store
from prereg.activations.store.request import STACKS, CaptureRequest, TokenizedPrompts

__all__ = [
    "STACKS",
    "CaptureRequest",
    "Store",
    "StoreInfo",
    "TokenizedPrompts",
    "find_store",
    "list_stores",
    "remove_store",
    "store_key",
]
