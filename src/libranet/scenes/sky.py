"""The sky: gradient, sun and clouds as functions of direction alone, so that they stay put while the camera moves."""

import torch
from torch import Tensor

from libranet.scenes.light import Light
from libranet.scenes.noise import DetailTexture, smoothstep


def sky_radiance(directions: Tensor, light: Light, texture: DetailTexture, pixel: float) -> Tensor:
    """Radiance [3, N] seen along unit directions [3, N]; `pixel` is the angle one pixel covers."""
    dx, dy, dz = directions
    height = dy.clamp(min=0.0)
    sun = light.towards_sun
    glow = (dx * sun[0] + dy * sun[1] + dz * sun[2]).clamp(min=0)
    rise = 1 - torch.exp(-4.2 * height)
    low = torch.exp(-14.0 * height)
    base = [light.horizon[i] + (light.zenith[i] - light.horizon[i]) * rise for i in range(3)]
    halo = 0.10 * glow**8 * (0.4 + 0.6 * low) + 0.35 * glow**180 + 30.0 * smoothstep(0.99990, 0.99996, glow)
    scatter = [base[i] + light.sun[i] * halo * (1 - 0.9 * light.clouds) for i in range(3)]

    reach = 1.0 / (height + 0.07)
    u, v = dx * reach * light.cloud_scale + light.cloud_shift[0], dz * reach * light.cloud_scale + light.cloud_shift[1]
    footprint = pixel * reach * reach * light.cloud_scale * 0.7
    large = texture.sample(u, v, 9.0, footprint)
    fine = texture.sample(u + 3.7, v + 1.9, 3.2, footprint)
    field = large[3] + 0.32 * fine[0]
    edge = 1.7 - 3.2 * light.clouds
    density = smoothstep(edge, edge + 1.1, field) * smoothstep(0.0, 0.05, height) * min(1.0, light.clouds * 6)
    # Thick parts are darker below; towards the sun clouds glow.
    thick = smoothstep(edge + 0.5, edge + 2.2, field + 0.25 * fine[1])
    bright = 1.0 - 0.42 * thick + 0.10 * fine[0] + 0.35 * glow**6
    silver = [0.26 * light.sun[i] + 0.75 * light.sky[i] + 0.12 * light.horizon[i] for i in range(3)]
    return torch.stack([torch.lerp(scatter[i], silver[i] * bright, density * 0.92) for i in range(3)])
