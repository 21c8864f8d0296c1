"""Registration: what was promised, when, and whether anything was bent since.

`freeze` writes it, `amend` adds to it, `Standing` says in a glance how a study stands; the walk through the whole
history is `prereg.audit`.
"""
