"""The training objective and its terms."""

from libranet.losses.objective import (
    FogWeights,
    LieTerms,
    LieWeights,
    LossConfig,
    LossTerms,
    Objective,
    charbonnier,
    lie_regulariser,
)
from libranet.losses.perceptual import DinoV2Features, FeatureExtractor, PerceptualLoss, VggFeatures

__all__ = [
    "DinoV2Features",
    "FeatureExtractor",
    "FogWeights",
    "LieTerms",
    "LieWeights",
    "LossConfig",
    "LossTerms",
    "Objective",
    "PerceptualLoss",
    "VggFeatures",
    "charbonnier",
    "lie_regulariser",
]
