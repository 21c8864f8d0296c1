"""H1-learned. What survives the running sum is learned."""

from prereg import Study


def test_h1_learned_what_survives_is_larger_than_in_every_untrained_twin(study: Study) -> None:
    """The share beyond the running sum is larger in the trained model than in each untrained twin.

    A twin has the same architecture, freshly initialised by its own scheme, and sees the same prompts. Every
    twin must be exceeded, so that no lucky seed decides.
    """
    learned = study.verdict("H1-learned")
    assert learned.supported, learned.explain()
