"""The look of the terrain: grass, soil, rock, sand, snow, forest seen from afar, and what is laid on it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.scenes.light import Light, Shade
from libranet.scenes.noise import DetailTexture, SolidTexture, normalised, smoothstep
from libranet.scenes.palette import Palette, flat, mix
from libranet.scenes.paving import Patch, lay_fields, lay_road
from libranet.scenes.terrain import Terrain
from libranet.scenes.water import water_radiance


@dataclass(frozen=True)
class Ground:
    """Shades points of the terrain."""

    palette: Palette
    terrain: Terrain
    light: Light
    shade: Shade
    texture: DetailTexture
    leaves: SolidTexture

    def radiance(
        self,
        points: Tensor,  # [3, N]
        directions: Tensor,  # [3, N]
        distance: Tensor,  # [N]
        pixel: float,
        cars: list[tuple[float, float, float, float]],  # x, z, half sizes of what drives
    ) -> Tensor:  # [3, N]
        x, y, z = points
        normal, cover, bare = self.terrain.surface(x, z)
        facing = -(directions * normal).sum(dim=0).clamp(max=-0.04)
        patch = self._patch(x, z, pixel * distance, facing)
        albedo, normal, open_sky = self._albedo(patch, y, normal, cover, y - bare)
        open_sky = open_sky * (1 - 0.75 * self.shade.crowded(x, z))
        for cx, cz, hx, hz in cars:
            gap = torch.hypot((x - cx).abs().sub(hx).clamp(min=0), (z - cz).abs().sub(hz).clamp(min=0))
            dim = 0.75 * (1 - gap / 0.7).clamp(0, 1)
            open_sky, albedo = open_sky * (1 - dim), albedo * (1 - 0.7 * dim)
        out = self.shade.lit(albedo, normal, points, open_sky)
        sea = self.terrain.relief.sea
        if sea is None:
            return out
        at = ((y < sea + 0.02) & (bare < sea)).nonzero()[:, 0]
        if at.numel():
            out[:, at] = water_radiance(
                points[:, at],
                directions[:, at],
                (patch.across * patch.along).sqrt()[at],
                sea - bare[at],
                palette=self.palette,
                light=self.light,
                texture=self.texture,
            )
        return out

    def _patch(self, x: Tensor, z: Tensor, across: Tensor, facing: Tensor) -> Patch:
        footprint = across * facing**-0.45
        return Patch(
            x=x,
            z=z,
            across=across,
            along=across / facing,
            footprint=footprint,
            fine=self.texture.sample(x, z, 5.3, footprint),
            # Turned against each other, so that no grid of tiles shows.
            middle=self.texture.sample(0.80 * x + 0.60 * z, 0.80 * z - 0.60 * x, 67.0, footprint),
            large=self.texture.sample(0.34 * x - 0.94 * z, 0.34 * z + 0.94 * x, 870.0, footprint),
        )

    def _albedo(
        self,
        patch: Patch,
        y: Tensor,  # [N]
        normal: Tensor,  # [3, N]
        cover: Tensor,  # [N] forest cover as `Terrain.surface` gives it
        above: Tensor,  # [N] metres above the bare ground
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Albedo [3, N], normal with its small bumps [3, N], and the share of the sky that is open [N]."""
        p, x = self.palette, patch.x
        fine, middle, large = patch.fine, patch.middle, patch.large
        steep = 1 - normal[1]
        forest = smoothstep(0.02, 0.12, cover)

        dryness = smoothstep(-0.9, 1.4, 0.7 * large[0] + 0.55 * middle[0] + 0.25 * fine[3])
        colour = mix(flat(p.grass, x), flat(p.dry, x), dryness)
        colour = mix(colour, flat(p.soil, x), 0.75 * smoothstep(1.0, 2.0, middle[1] + 0.4 * fine[1] + 0.3 * large[1]))
        if p.fields:
            colour = lay_fields(colour, patch, p, self.terrain.road)
        rocky = smoothstep(0.12, 0.30, steep + 0.05 * middle[0] + 0.03 * fine[3]) * (1 - forest)
        strata = 1 + 0.25 * middle[3] + 0.1 * torch.sin(y * 0.35 + middle[1])
        colour = mix(colour, flat(p.rock, x) * strata, rocky)
        sea = self.terrain.relief.sea
        if sea is not None:
            beach = smoothstep(sea + 3.2, sea + 1.2, y + 0.5 * middle[0]) * (1 - rocky)
            damp = smoothstep(sea + 0.7, sea + 0.1, y + 0.15 * middle[3])
            colour = mix(colour, flat(p.sand, x) * (1 - 0.45 * damp), beach)
        colour = colour * torch.exp(0.25 * fine[0] + 0.13 * fine[2] + 0.10 * middle[2])
        high = smoothstep(p.snow_line, p.snow_line + 90, y + 40 * large[1] + 14 * middle[0])
        snow = high * smoothstep(0.42, 0.2, steep)
        colour = mix(colour, flat((0.80, 0.82, 0.86), x) * (1 + 0.03 * fine[0]), snow * (1 - 0.55 * forest))

        bumps = 0.22 * torch.stack([fine[0], 0 * x, fine[1]]) + 0.16 * torch.stack([middle[0], 0 * x, middle[1]])
        bumps = bumps * ((1 - forest) * (0.5 + rocky))
        open_sky = torch.ones_like(x)
        if self.terrain.relief.forest > 0:
            crown, leaf = self._canopy(patch, y, cover)
            colour = mix(colour, crown, forest * (1 - 0.8 * snow))
            # Gaps between crowns and the foot of the forest's edge see little sky.
            shut = 0.30 + 0.25 * (0.2 - leaf[0] - 0.6 * middle[2]).clamp(0, 1) + 0.45 * smoothstep(9.0, 1.0, above)
            open_sky = 1 - forest * shut.clamp(max=0.92)
            colour = colour * (1 - 0.5 * forest * smoothstep(7.0, 0.5, above))
            bumps = bumps + forest * (0.4 * leaf[:3] + flat((0.0, 0.5, 0.0), x))
        if self.terrain.road.half_width:
            colour, paved = lay_road(colour, patch, p, self.terrain.road)
            bumps = bumps * (1 - 0.8 * paved)
        return colour.clamp(0.004, 0.9), normalised(normal + bumps), open_sky

    def _canopy(self, patch: Patch, y: Tensor, cover: Tensor) -> tuple[Tensor, Tensor]:
        """Albedo of closed forest [3, N] and the leaf noise it was made with [4, N]."""
        x, z, footprint = patch.x, patch.z, patch.footprint
        near = self.leaves.sample(x, y, z, 2.9) * (1.4 - footprint * 5.0).clamp(0, 1)
        far = self.leaves.sample(x, y, z, 13.0) * (1.4 - footprint).clamp(0, 1)
        tint = ((cover - 1.0) / 0.98).clamp(0, 1)
        crown = mix(flat(self.palette.canopy[0], x), flat(self.palette.canopy[1], x), tint)
        mottle = 0.35 * near[0] + 0.2 * near[1] + 0.3 * far[0] + 0.3 * patch.middle[2] + 0.3 * patch.large[2]
        return crown * torch.exp(mottle), torch.cat([near, far])
