"""Haze over windows of clear images in plain PyTorch: the reference of the fused kernel beside it.

A sample is a moving crop of one image. Its colours are changed as another camera would, its sky may come from another
image, and haze is laid over it by the scattering model, hazy = clear * t + airlight * (1 - t), t = exp(-beta * depth).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.haze.images import SKY_LEVEL
from libranet.haze.parameters import HazeParameters, Sky, View, to_device
from libranet.haze.scattering import add_haze, transmission


def haze_windows(
    images: Tensor,  # [N, 3, lines, columns] uint8
    depths: Tensor,  # [N, 1, depth lines, depth columns] uint8, 0 near, 255 far
    parameters: HazeParameters,
    size: tuple[int, int],  # height and width of the crops
    *,
    window: int,
    outputs: int = 1,
    seed: int,
) -> tuple[Tensor, Tensor]:  # [B, window + outputs - 1, 3, h, w] hazy, [B, outputs, 3, h, w] clear, in [0, 1]
    """Look at clear images through a moving camera and through haze.

    Args:
        depths: Their depth. Beyond `SKY_LEVEL` a pixel is sky.
        window: Frames per window. The target is the clear version of the centre one.
        outputs: Consecutive windows per sample, each a frame later; they share frames, as in a video.
        seed: Of the sensor noise. Other implementations draw other noise from it.
    """
    p = to_device(parameters, images.device)
    clear, depth, place = _look(images, depths, p.view, size, window, outputs)
    clear = torch.lerp(clear, _look_at_donors(images, p.sky, place), sky_share(depth) * _each(p.sky.stretch > 0))
    hazy, target = haze_frames(grade_colours(clear, depth, place, p), depth, place, p)
    generator = torch.Generator(hazy.device).manual_seed(seed)
    grain = torch.randn(hazy.shape, generator=generator, device=hazy.device)
    hazy = (hazy + grain * _each(p.camera.noise)).clamp(0, 1)
    stored = (hazy * 255).round() / 255  # what a camera stores
    return stored, target[:, window // 2 : window // 2 + outputs].contiguous()


def grade_colours(
    clear: Tensor,  # [B, T, 3, H, W] in [0, 1]
    depth: Tensor,  # [B, T, 1, H, W] in [0, 1]
    place: Tensor,  # [B, T, H, W, 2] in [-1, 1], where each pixel lies on its canvas
    parameters: HazeParameters,
) -> Tensor:  # [B, T, 3, H, W]
    """Change colours as another camera, other light or another sky would, or make them dull, as on a grey day."""
    camera, sky = parameters.camera, parameters.sky
    clear = (clear * _per_channel(camera.white_balance)).clamp(0, 1) ** _each(camera.tone)
    in_sky = sky_share(depth)
    clear = clear * (1 + in_sky * (_per_channel(sky.gain) - 1))
    clear = (clear * (1 + (1 - in_sky) * _smooth_field(camera.shading, place))).clamp_max(1)
    grey, black = clear.mean(dim=2, keepdim=True), _each(camera.black_level)
    return ((grey + (clear - grey) * _each(camera.saturation)) * (1 - black) + black).clamp(0, 1)


def haze_frames(
    clear: Tensor,  # [B, T, 3, H, W] in [0, 1]
    depth: Tensor,  # [B, T, 1, H, W] in [0, 1], 0 near, 1 far
    place: Tensor,  # [B, T, H, W, 2] in [-1, 1]
    parameters: HazeParameters,
) -> tuple[Tensor, Tensor]:  # hazy and target, [B, T, 3, H, W] in [0, 1], without sensor noise
    """Lay haze over windows. Prior, patches and light are tied to the image, so they move with it.

    A sky stays the farthest thing in the image, whatever the prior says about the ground.
    """
    d, s, light = parameters.distance, parameters.scattering, parameters.airlight
    in_sky = sky_share(depth)
    height = (place[..., 1].unsqueeze(2) + 1) / 2  # 0 at the top
    fall = ((height - _each(d.horizon)) / (1 - _each(d.horizon))).clamp(0, 1)
    ramp = 1 - fall ** _each(d.ramp_power)
    prior = torch.lerp(ramp, _smooth_field(d.relief, place), _each(d.relief_share))
    distance = torch.lerp(depth, prior, _each(d.prior_share) * (1 - in_sky)).clamp(1e-4, 1) ** _each(d.gamma)
    near = _each(d.near)
    optical = (near + (1 - near) * distance) * (1 + _smooth_field(s.patches, place))

    slope = (place * light.slope[:, None, None, None]).sum(-1)[:, :, None]
    airlight = (_per_channel(light.colour) * (1 + slope)).clamp(0, 1)
    gamma = _each(light.gamma)
    clear = torch.lerp(clear, airlight, in_sky * _each(parameters.sky.fog)) ** gamma
    airlight = airlight**gamma
    target = add_haze(clear, transmission(distance, s.residual_beta), airlight)
    t = torch.maximum(transmission(optical, s.beta), _each(s.min_transmission))
    scene = target ** (1 + (_each(s.darkening) - 1) * (1 - in_sky))
    hazy = add_haze(scene, t, airlight)
    target = add_haze(target, (t / _each(s.opaque).clamp_min(1e-6)).clamp_max(1), airlight)
    return hazy ** (1 / gamma), target ** (1 / gamma)


def sky_share(depth: Tensor) -> Tensor:
    """How much of each pixel is sky, by its depth in [0, 1]."""
    return ((depth * 255 - SKY_LEVEL) / 4).clamp(0, 1)


def _look(
    images: Tensor,  # [N, 3, lines, columns] uint8
    depths: Tensor,  # [N, 1, depth lines, depth columns] uint8
    view: View,
    size: tuple[int, int],
    window: int,
    outputs: int,
) -> tuple[Tensor, Tensor, Tensor]:  # [B, T, 3, H, W], [B, T, 1, H, W], [B, T, H, W, 2]; T = window + outputs - 1
    """Colour, depth and place of every pixel that the cameras see."""
    b, t, (height, width), device = len(view.image), window + outputs - 1, size, images.device
    y = (torch.arange(height, device=device) * 2 + 1) / height - 1
    x = (torch.arange(width, device=device) * 2 + 1) / width - 1
    base = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)  # [H, W, 2]
    base = base * torch.stack([view.mirror, torch.ones_like(view.mirror)], -1)[:, None, None]  # [B, H, W, 2]
    unmoved = view.centre[:, None, None] + view.half_size[:, None, None] * base
    depth = depths[view.image].float() / 255
    nearness = 1 - _sample(depth, unmoved[:, None])[:, 0, 0]  # [B, H, W]
    tau = (torch.arange(t, device=device) - window // 2).view(1, t, 1, 1, 1)
    pan = view.pan[:, None, None, None]
    scale = 1 + tau * _each(view.zoom) * 0.5
    shift = tau * (pan + pan.sign() * (nearness * view.parallax.abs()[:, None, None])[:, None, ..., None])
    centre, half_size = (v[:, None, None, None] for v in (view.centre, view.half_size))
    place = centre + half_size * (base[:, None] * scale + shift * 2)
    limit = (2 * view.used_width - 1).view(b, 1, 1, 1)
    place = torch.stack([torch.minimum(place[..., 0], limit), place[..., 1]], -1).clamp(-1, 1)
    return _sample(images[view.image].float() / 255, place), _sample(depth, place), place


def _look_at_donors(
    images: Tensor,  # [N, 3, lines, columns] uint8
    sky: Sky,
    place: Tensor,  # [B, T, H, W, 2]
) -> Tensor:  # [B, T, 3, H, W]
    """The donors' skies, stretched to reach down to the skylines of the images."""
    stretch, limit = (v.view(-1, 1, 1, 1) for v in (sky.stretch, 2 * sky.donor_width - 1))
    x, y = torch.minimum(place[..., 0], limit), (place[..., 1] + 1) * stretch - 1
    return _sample(images[sky.donor].float() / 255, torch.stack([x, y], -1))


def _smooth_field(
    cells: Tensor,  # [B, C, CELLS, CELLS]
    place: Tensor,  # [B, T, H, W, 2] in [-1, 1]
) -> Tensor:  # [B, T, C, H, W]
    """A smooth random field where each pixel lies on its canvas."""
    return _sample(cells, place, align_corners=True)


def _sample(
    maps: Tensor,  # [B, C, h, w]
    place: Tensor,  # [B, T, H, W, 2] in [-1, 1]
    *,
    align_corners: bool = False,
) -> Tensor:  # [B, T, C, H, W]
    """Read maps bilinearly at every place, clamped to their border."""
    b, t, height, width, _ = place.shape
    flat = place.reshape(b, t * height, width, 2)
    sampled = F.grid_sample(maps, flat, padding_mode="border", align_corners=align_corners)
    return sampled.view(b, -1, t, height, width).transpose(1, 2)


def _each(value: Tensor) -> Tensor:  # [B] -> [B, 1, 1, 1, 1]
    return value[:, None, None, None, None]


def _per_channel(value: Tensor) -> Tensor:  # [B, 3] -> [B, 1, 3, 1, 1]
    return value[:, None, :, None, None]
