"""H5. Sparse dictionaries are identifiable."""

from prereg import Study


def test_h5_topk_is_at_least_half_as_stable_as_l1(study: Study) -> None:
    """Over seeds, TopK's features match at least half as far above chance as those of an L1 dictionary.

    Matching is one to one by decoder cosine, over live features; chance is that of random dictionaries, and L1 has the
    same sparsity where codes are read. Updates are the units: each has dictionaries of its own.
    """
    stable = study.verdict("H5")
    assert stable.supported, stable.explain()
