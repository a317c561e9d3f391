"""What a fitted learner leaves behind: numpy arrays that predict, one column per configuration.

Nothing here imports more than numpy, and nothing is unpickled.
"""

from colltune.models.predictors.protocol import (
    PREDICTORS,
    Arrays,
    CautiousPredictor,
    Predictor,
    predictor_class,
)

__all__ = ["PREDICTORS", "Arrays", "CautiousPredictor", "Predictor", "predictor_class"]
