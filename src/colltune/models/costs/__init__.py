"""What collective algorithms cost, by published formulas.

``network`` has the parameters that costs are linear in, the amounts that they multiply and who
talks to whom; ``formulas`` and ``libcolltune`` the algorithms; ``families`` which of them a
configuration is; ``breakdown`` fitted costs part by part, and what published designs promise, with
the formulas of two papers; ``han`` has those of a third.
"""
