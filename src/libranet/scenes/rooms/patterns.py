"""Albedos of finishes at points, band-limited by the pixel's footprint."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from libranet.scenes.noise import DetailTexture, hash01, pulse, smoothstep, step
from libranet.scenes.palette import mix
from libranet.scenes.rooms.finishes import Finish, Kind
from libranet.scenes.rooms.shapes import Spot


class Patterns:
    """The finishes of one room as a table, and what they look like."""

    def __init__(self, finishes: Sequence[Finish], texture: DetailTexture, device: torch.device) -> None:
        self.texture = texture
        rows = [[f.kind, *f.colour, *f.second, f.scale, f.key, f.gloss, f.glow] for f in finishes]
        self.table = torch.tensor(rows, dtype=torch.float32, device=device).T.contiguous()

    def mirror_and_glow(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Share of mirrored light and own light, [N] each."""
        return self.table[9, row], self.table[10, row]

    def albedo(self, spot: Spot, footprint: Tensor) -> Tensor:
        """Colours [3, N] of points whose pixel covers `footprint` [N] metres."""
        kinds = self.table[0, spot.row]
        out = torch.empty_like(spot.normal)
        for kind in torch.unique(kinds).tolist():
            at = (kinds == kind).nonzero()[:, 0]
            fields = self.table[:, spot.row[at]]
            place = (spot.u[at], spot.v[at], spot.across[at], spot.upward[at], spot.tall[at])
            out[:, at] = self._pattern(Kind(int(kind)), place, fields, footprint[at])
        return out.clamp(0.004, 0.92)

    def _noise(self, u: Tensor, v: Tensor, period: float, footprint: Tensor, key: Tensor) -> Tensor:
        return self.texture.sample(u + 7.3 * key, v + 3.1 * key, period, footprint)

    def _pattern(self, kind: Kind, place: tuple[Tensor, ...], fields: Tensor, f: Tensor) -> Tensor:
        u, v, across, upward, tall = place
        a, b, scale, key = fields[1:4], fields[4:7], fields[7], fields[8]
        number = key * 65536
        if kind == Kind.CHART:
            return _chart(across, upward, number)
        if kind == Kind.PICTURE:
            return self._picture(across, upward, a, b, f, key)
        if kind == Kind.OUTDOORS:
            return self._outdoors(u, v, upward, a, b, f, key)
        if kind == Kind.WOOD:
            along, beside = torch.where(tall, v, u), torch.where(tall, u, v)
            grain = self._noise(0.12 * along, beside, 0.7, f, key)
            return mix(a, b, 0.5 + 0.3 * grain[0] + 0.2 * grain[2])
        if kind == Kind.PLANKS:
            line = torch.floor(v / scale)
            along = (u + 40 * hash01(line, number)) / (9 * scale)
            tone = hash01(line, torch.floor(along), number)
            grain = self._noise(0.1 * u, v + tone, 0.5, f, key)
            gap = pulse(v / scale, 0.96, f / scale) * pulse(along, 0.996, f / (9 * scale))
            return mix(a, b, 0.2 + 0.6 * tone + 0.22 * grain[0]) * (0.45 + 0.55 * gap)
        if kind in (Kind.TILES, Kind.BRICK):
            long = 3.2 if kind == Kind.BRICK else 1.0
            line = torch.floor(v / scale)
            along = u / (long * scale) + (0.5 * line if kind == Kind.BRICK else 0.0)
            tone = hash01(line, torch.floor(along), number) - 0.5
            spread = 0.5 if kind == Kind.BRICK else 0.08
            joint = 0.015 / scale if kind == Kind.BRICK else 0.006 / scale
            inside = pulse(v / scale, 1 - joint, f / scale) * pulse(along, 1 - joint / long, f / (long * scale))
            noise = self._noise(u, v, 0.6, f, key)
            return mix(b, a * (1 + spread * tone + 0.35 * spread * noise[0]), inside)
        if kind == Kind.CARPET:
            noise = self._noise(u, v, 0.4, f, key) + 0.5 * self._noise(u, v, 2.3, f, key)
            return a * (1 + 0.2 * noise[2] + 0.08 * noise[0]).clamp(0.3, 1.7)
        if kind == Kind.FABRIC:
            weave = pulse(u / scale, 0.5, f / scale) + pulse(v / scale, 0.5, f / scale) - 1
            noise = self._noise(u, v, 0.5, f, key)
            return a * (1 + 0.12 * weave + 0.1 * noise[2] + 0.06 * noise[0]).clamp(0.3, 1.7)
        if kind == Kind.STRIPES:
            noise = self._noise(u, v, 0.4, f, key)
            return mix(a, b, pulse(u / (2 * scale), 0.5, f / (2 * scale))) * (1 + 0.03 * noise[2])
        if kind == Kind.CHECKER:
            sides = (2 * pulse(x / (2 * scale), 0.5, f / (2 * scale)) - 1 for x in (u, v))
            return mix(a, b, 0.5 + 0.5 * next(sides) * next(sides))
        if kind == Kind.FOLDS:
            wave = self._noise(u, 0.02 * v, 3.0, f, key)[3]
            phase = u / scale + 0.35 * wave
            sway = torch.sin(2 * math.pi * phase) + 0.4 * torch.sin(4.7 * math.pi * phase + 1)
            return a * (0.82 + 0.14 * sway) * (1 + 0.03 * self._noise(u, v, 0.3, f, key)[2])
        if kind == Kind.SLATS:
            return mix(b, a, pulse(v / scale, 0.8, f / scale))
        if kind == Kind.LEAF:
            noise = self._noise(u, v, 0.5, f, key) + 0.7 * self._noise(v, u, 0.17, f, key)
            return mix(a, b, 0.45 + 0.3 * noise[0]) * (1 + 0.12 * noise[2]).clamp(0.5, 1.5)
        noise = self._noise(u, v, 1.7, f, key)
        fine = self._noise(v, u, 0.23, f, key)
        return a * (1 + 0.012 * noise[0] + 0.012 * noise[3] + 0.018 * fine[2])

    def _picture(self, x: Tensor, y: Tensor, a: Tensor, b: Tensor, f: Tensor, key: Tensor) -> Tensor:
        """A landscape, or blots, inside a mat."""
        soft = f.clamp(min=0.08)
        fine, broad = (
            self._noise(x, y, 4.7, f, key),
            [self._noise(x, y, 5.3, soft, key + k)[3] for k in (0.0, 0.37, 0.71)],
        )
        land = step(0.3 * broad[0] - 0.9 * (y + 0.1), f * 2)
        blots = smoothstep(-0.15, 0.15, broad[1] + 0.07 * fine[0])
        share = torch.where(key < 0.5, land, blots)
        motif = mix(a, b, share) * (1 + 0.12 * fine[1] + 0.1 * fine[2]).clamp(0.2, 2.2)
        spot = step(broad[2] - 0.8, f * 2)
        motif = mix(motif, torch.stack([b[2], a[0], a[1]]), spot)
        mat = torch.maximum(x.abs(), y.abs())
        return mix(motif, torch.full_like(motif, 0.75), step(mat - 0.8, f * 3) * (key * 10 % 1 < 0.6))

    def _outdoors(self, u: Tensor, v: Tensor, up: Tensor, a: Tensor, b: Tensor, f: Tensor, key: Tensor) -> Tensor:
        """Bright sky over blurred greenery or houses."""
        broad = self._noise(u, v, 3.1, f.clamp(min=0.05), key)
        edge = smoothstep(-0.12, 0.12, up + 0.3 * broad[3] + 0.6 * key)
        return mix(b * (1 + 0.25 * broad[3] + 0.2 * broad[0]).clamp(0.3, 2), a, edge)


def _chart(x: Tensor, y: Tensor, number: Tensor) -> Tensor:
    """Six by four patches on black; the lowest row is grey, from white to black."""
    column, line = torch.floor(3 * (x + 1)), torch.floor(2 * (y + 1))
    inside = ((3 * (x + 1)) % 1 - 0.5).abs().maximum(((2 * (y + 1)) % 1 - 0.5).abs()) < 0.42
    colour = torch.stack([hash01(column, line, number + i) ** 1.8 for i in range(3)]) * 0.85
    grey = (0.85 * 0.5 ** (1.1 * column)).expand_as(colour)
    return torch.where(inside, torch.where(line < 1, grey, colour), 0.01)
