"""The training objective and its terms."""

from libranet.losses.objective import LieWeights, charbonnier, lie_regulariser
from libranet.losses.perceptual import PerceptualLoss

__all__ = ["LieWeights", "PerceptualLoss", "charbonnier", "lie_regulariser"]
