"""H3-rank. Past codes, carried by a state, explain updates beyond the codes of the same layer."""

from prereg import Study


def test_h3_rank_rank_matched_the_state_adds_to_the_readout(study: Study) -> None:
    """The state-space model reconstructs updates better than a per-layer readout of the same rank.

    Both read the codes of the update's own dictionary through a map of the same rank; the model has a state
    besides, fed by the codes of earlier layers. Neither sees the held-out subjects, nor do the dictionaries.
    """
    rank = study.verdict("H3-rank")
    assert rank.supported, rank.explain()
