"""Everything random about a batch of hazy samples, by name. Every tensor has the batch as its first axis."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

CELLS = 9  # side of the coarse random fields that become smooth structure

Group = TypeVar("Group")


@dataclass(frozen=True)
class View:
    """What the camera of each sample sees. An image lies on a canvas that spans [-1, 1] both ways."""

    image: Tensor  # [B] int64, which image
    centre: Tensor  # [B, 2], of the crop
    half_size: Tensor  # [B, 2], of the crop
    mirror: Tensor  # [B], -1 mirrors left and right, 1 does not
    pan: Tensor  # [B, 2], per frame, across and down
    zoom: Tensor  # [B], per frame
    parallax: Tensor  # [B], how much more near things move than far ones, per frame
    used_width: Tensor  # [B], share of the canvas's width that the image fills


@dataclass(frozen=True)
class Distance:
    """How far things are: depth from the map, mixed with a random prior."""

    near: Tensor  # [B], depth of the nearest point
    gamma: Tensor  # [B], exponent applied to depth
    prior_share: Tensor  # [B] in [0, 1], how much of the depth is the prior
    horizon: Tensor  # [B] in [0, 1], the prior's horizon from the top
    ramp_power: Tensor  # [B], how the prior falls below the horizon
    relief_share: Tensor  # [B], how much of the prior is smooth structure
    relief: Tensor  # [B, 1, CELLS, CELLS] in [0, 1], that structure


@dataclass(frozen=True)
class Scattering:
    """How dense the haze is."""

    beta: Tensor  # [B, 3]
    residual_beta: Tensor  # [B, 3], of the light haze that stays in the target
    min_transmission: Tensor  # [B]
    darkening: Tensor  # [B], exponent of the light that comes through: haze dims a scene that the target shows lit
    opaque: Tensor  # [B], transmission below which the target keeps haze: nobody can see what is behind it
    patches: Tensor  # [B, 1, CELLS, CELLS] in [-1, 1], relative change of the optical depth


@dataclass(frozen=True)
class Airlight:
    """The colour of the haze, and the light it is mixed in."""

    colour: Tensor  # [B, 3]
    slope: Tensor  # [B, 2], relative change over x and y in [-1, 1]
    gamma: Tensor  # [B], exponent that takes stored values to the light in which haze is mixed; 1 mixes stored values


@dataclass(frozen=True)
class Camera:
    """What the camera makes of the clear image, and its noise."""

    white_balance: Tensor  # [B, 3], factors of the channels
    tone: Tensor  # [B], exponent of the values
    saturation: Tensor  # [B]
    black_level: Tensor  # [B]
    noise: Tensor  # [B], standard deviation
    shading: Tensor  # [B, 3, CELLS, CELLS], relative change of the light on the ground


@dataclass(frozen=True)
class Sky:
    """What becomes of the sky."""

    gain: Tensor  # [B, 3], factors of its colour
    fog: Tensor  # [B] in [0, 1], how much of it is the airlight, in the target too
    donor: Tensor  # [B] int64, which image it comes from
    stretch: Tensor  # [B], rows of the donor per row of the image; 0 keeps the image's own sky
    donor_width: Tensor  # [B], share of the canvas's width that the donor fills


@dataclass(frozen=True)
class HazeParameters:
    """All groups of one batch."""

    view: View
    distance: Distance
    scattering: Scattering
    airlight: Airlight
    camera: Camera
    sky: Sky

    def __len__(self) -> int:
        return len(self.view.image)


def map_tensors(function: Callable[..., Tensor], *groups: Group) -> Group:
    """Apply a function to the tensors of the same name in groups of one type, nested or not."""
    first: Any = groups[0]
    if isinstance(first, Tensor):
        return function(*groups)  # type: ignore[return-value]
    if isinstance(first, dict):
        return {name: map_tensors(function, *(group[name] for group in groups)) for name in first}  # type: ignore
    names = [f.name for f in fields(first)]
    return replace(first, **{name: map_tensors(function, *(getattr(g, name) for g in groups)) for name in names})  # type: ignore[return-value]


def rows(group: Group, part: slice | Tensor) -> Group:
    """Take some of the samples of a group; a tensor of numbers may name one twice."""
    return map_tensors(lambda tensor: tensor[part], group)


def to_device(group: Group, device: torch.device) -> Group:
    return map_tensors(lambda tensor: tensor.to(device, non_blocking=True), group)
