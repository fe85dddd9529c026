"""Fixtures that more than one room uses."""

import pytest
import torch

from libranet.models import LiBrANet, LiBrANetConfig
from tiny_network import TINY, perturb


@pytest.fixture
def tiny_config() -> LiBrANetConfig:
    return TINY


@pytest.fixture
def tiny_model() -> LiBrANet:
    """A tiny network with weights at which its output differs from its input."""
    torch.manual_seed(0)
    return perturb(LiBrANet(TINY))
