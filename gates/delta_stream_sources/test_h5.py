"""H5. Sparse dictionaries are identifiable."""

from prereg import Study


def test_h5_topk_is_as_stable_as_l1(study: Study) -> None:
    """Over seeds, TopK's features match one to one as well as those of an L1 dictionary of the same sparsity.

    Matching is one to one by decoder cosine, over live features. Updates are the units: each has dictionaries of
    its own, and features of one dictionary are not independent.
    """
    stable = study.verdict("H5")
    assert stable.supported, stable.explain()
