"""Open water: waves that mirror the sky, the bottom showing through where it is shallow, foam at the shore."""

import torch
from torch import Tensor

from libranet.scenes.light import Light
from libranet.scenes.noise import DetailTexture, normalised, smoothstep
from libranet.scenes.palette import Palette, flat, mix
from libranet.scenes.sky import sky_radiance


def water_radiance(
    points: Tensor,  # [3, N]
    directions: Tensor,  # [3, N]
    footprint: Tensor,  # [N] metres a pixel covers
    depth: Tensor,  # [N] metres of water
    *,
    palette: Palette,
    light: Light,
    texture: DetailTexture,
) -> Tensor:  # [3, N]
    x, _, z = points
    waves = texture.sample(0.7 * x + 0.7 * z, 1.2 * z - 1.2 * x, 11.0, footprint)
    waves = waves + 1.2 * texture.sample(0.2 * x + 0.98 * z, 1.4 * x - 0.3 * z, 130.0, footprint)
    normal = normalised(torch.stack([0.045 * waves[0], torch.ones_like(x), 0.045 * waves[1]]))
    facing = (-(directions * normal).sum(dim=0)).clamp(0.02, 1)
    mirror = directions + 2 * facing * normal
    mirror = normalised(torch.stack([mirror[0], mirror[1].abs() + 0.01, mirror[2]]))
    fresnel = 0.02 + 0.98 * (1 - facing) ** 5
    sky = sky_radiance(mirror, light, texture, 0.02).clamp(max=4.0)
    body = mix(flat(palette.water, x), flat(palette.sand, x) * 0.5, 0.7 * torch.exp(-depth * 0.35))
    height = max(0.1, light.towards_sun[1])
    lit = torch.stack([body[i] * (light.sky[i] + 0.6 * light.sun[i] * height) for i in range(3)])
    foam = smoothstep(0.9, 1.6, waves[2] + 2.2 * torch.exp(-depth * 2.0)) * torch.exp(-depth * 1.2)
    red, green, blue = (0.6 * light.sky[i] + 0.3 * light.sun[i] for i in range(3))
    return mix(lit * (1 - fresnel) + sky * fresnel, flat((red, green, blue), x), foam * 0.8)
