"""Pictures of measurements, decisions and evaluations, as matplotlib figures.

Every module has functions that return a `matplotlib.figure.Figure`, to be shown in a notebook or
written by `saving.saved`. Nothing here needs a display.
"""

from colltune.on_demand import require

require("plots", "matplotlib")
