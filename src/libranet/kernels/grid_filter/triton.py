# mypy: disable-error-code="no-untyped-def"
"""The filter of the grids over time in one kernel: every program reads its cells through all frames of the memory."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["ring", "delay"])
def _filter_kernel(
    grids_ptr,  # [R, channels, cells] fp32
    looks_ptr,  # [R, 3, cells] fp32
    clock_ptr,  # [2] int64
    out_ptr,  # [B, channels, cells] fp32
    channels, cells, ring, delay,
    inverse_span,  # 1 / span^2
    inverse_change,  # 1 / (3 LOOK_CHANGE^2)
    MEMORY: tl.constexpr, AHEAD: tl.constexpr, CHANNELS: tl.constexpr, CELLS: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(2)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    cell = tl.program_id(0) * CELLS + tl.arange(0, CELLS)
    inside_cells = cell < cells
    inside = (channel < channels)[:, None] & inside_cells[None, :]
    place = channel[:, None] * cells + cell[None, :]

    number = tl.load(clock_ptr) - delay + b
    count = tl.load(clock_ptr + 1)
    slot = tl.maximum(number, 0) % ring
    now = tl.load(grids_ptr + slot * channels * cells + place, mask=inside, other=0.0)
    look = looks_ptr + slot * 3 * cells + cell
    red = tl.load(look, mask=inside_cells, other=0.0)
    green = tl.load(look + cells, mask=inside_cells, other=0.0)
    blue = tl.load(look + 2 * cells, mask=inside_cells, other=0.0)

    total = tl.zeros((CHANNELS, CELLS), tl.float32)
    mass = tl.zeros((CELLS,), tl.float32)
    for step in tl.range(MEMORY + AHEAD + 1, loop_unroll_factor=4):  # four frames are fetched at a time
        age = MEMORY - step
        frame = tl.maximum(number - age, 0)
        counts = (frame < count) | (age == 0)
        slot = frame % ring
        look = looks_ptr + slot * 3 * cells + cell
        d_red = tl.load(look, mask=inside_cells, other=0.0) - red
        d_green = tl.load(look + cells, mask=inside_cells, other=0.0) - green
        d_blue = tl.load(look + 2 * cells, mask=inside_cells, other=0.0) - blue
        change = (d_red * d_red + d_green * d_green + d_blue * d_blue) * inverse_change
        weight = tl.where(counts, 1.0 - age * age * inverse_span, 0.0) / (1.0 + change)
        grid = tl.load(grids_ptr + slot * channels * cells + place, mask=inside, other=0.0)
        total += weight[None, :] * (grid - now)
        mass += weight
    value = now + total / mass[None, :]
    tl.store(out_ptr + b * channels * cells + place, value, mask=inside)
