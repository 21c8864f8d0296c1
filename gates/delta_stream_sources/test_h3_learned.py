"""H3-learned. About half of the gain is learned."""

from prereg import Study


def test_h3_learned_about_half_of_the_gain_is_learned(study: Study) -> None:
    """Between a quarter and three quarters of the rank-matched gain is missing from every untrained twin.

    A twin has its own dictionaries, trained on its own updates of the same prompts.
    """
    learned = study.verdict("H3-learned")
    assert learned.supported, learned.explain()
