"""H3-full. Past codes hold information that the present ones lack."""

from prereg import Study


def test_h3_full_full_rank_past_codes_add_information(study: Study) -> None:
    """With an unrestricted readout on both sides, a state still adds.

    Here nothing is left for the state to win by rank: what it adds is information of earlier layers.
    """
    full = study.verdict("H3-full")
    assert full.supported, full.explain()
