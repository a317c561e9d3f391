"""Runtime models: learners fit them, bundles keep them, and predicting needs numpy alone.

A dataset becomes a matrix of times per collective (``cells``); ``fitting`` gives it, and each part
with a fold left out, to a learner of ``learners``: ``regret_trees`` unless another is asked for.
What a learner leaves behind is a predictor, numpy arrays. With what was measured (its ``Coverage``)
and how wrong it is (``error_model``) it makes a ``collective_model``, and these make a ``bundle``.
``transfer`` adds other machines' data to a fit, ``guard`` tells when a predicted gain is beyond
doubt, ``costs`` has published cost formulas.
"""
