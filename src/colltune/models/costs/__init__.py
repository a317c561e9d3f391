"""What collective algorithms cost, by published formulas.

``network`` has the parameters that costs are linear in and the amounts that they multiply;
``rounds`` who talks to whom; ``trees``, ``blocks``, ``reductions`` and ``libcolltune`` the
algorithms; ``families`` which of them a configuration is; ``breakdown`` fitted costs part by part.
``hierarchical``, ``multi_hca`` and ``han`` are one paper's formulas each, ``designs`` what they
promise on a fitted network.
"""
