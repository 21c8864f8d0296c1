"""H3-decoding. The state tells the recalled answer."""

from prereg import Study


def test_h3_decoding_the_state_tells_the_answer(study: Study) -> None:
    """At mid-depth a linear classifier reads the answer off the state better than off PCA of the update's own codes.

    Same dimension, same training prompts, same classifier. The state knows earlier layers' codes and nothing of this
    update; candidates are the answers of the registered relations that have enough training prompts.
    """
    decoding = study.verdict("H3-decoding")
    assert decoding.supported, decoding.explain()
