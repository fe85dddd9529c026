# mypy: disable-error-code="no-untyped-def"
"""3x3 convolution for 64 output channels on Hopper, weight-stationary: weights stay in shared memory.

One program per multiprocessor fetches all nine taps' weights once, then walks down strips of COLS columns. Input rows
pass through a ring in shared memory, each fetched once: the three vertical taps read three rows of the ring, the three
horizontal taps read the same row from a start shifted by one pixel (128 bytes, which the hardware's swizzle, a function
of the address, allows). Output channels are the rows of the matrix product and pixels its columns. Two accumulators
take turns, so that one row's sums and stores happen while the tensor cores work on the next.

Every strip has one row of zeros above and below; walking over all strips of all frames end to end makes every step
equal: one row in, one row out. Rows that belong to no frame are fetched from and stored to the row past the last, which
tensor descriptors turn into zeros and nothing (a store must not begin at a negative place).
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)


@gluon.jit
def _place(v, total, height, strips):
    """Row among all frames' rows, strip, frame and row in it of a step; where there is none, the row past the last."""
    strip = v // (height + 2)
    y = v % (height + 2) - 1
    frame = strip // strips
    nowhere = total // ((height + 2) * strips) * height
    row = gl.where((v >= 0) & (v < total) & (y >= 0) & (y < height), frame * height + y, nowhere)
    return row, strip % strips, frame, y


@gluon.jit
def _fetch(
    x_desc, halo_desc, ring, bars, j, first, steps, total, height, strips,
    COLS: gl.constexpr, CHUNKS: gl.constexpr, RING: gl.constexpr,
):  # fmt: skip
    """Start fetching the program's j-th input row; nothing beyond its last."""
    atoms: gl.constexpr = COLS // 8 + 1
    row, strip, _, _ = _place(first + j - 1, total, height, strips)
    slot = j % RING
    bar = bars.index(slot)
    wanted = j < steps + 2
    mbarrier.expect(bar, CHUNKS * atoms * 1024, pred=wanted)
    for c in gl.static_range(CHUNKS):
        at = (slot * CHUNKS + c) * atoms
        main = ring.index(at)._reinterpret(gl.float16, [1, COLS, 64], x_desc.layout)
        tma.async_copy_global_to_shared(x_desc, [row, strip * COLS - 1, c * 64], bar, main, pred=wanted)
        side = ring.index(at + COLS // 8)._reinterpret(gl.float16, [1, 8, 64], halo_desc.layout)
        tma.async_copy_global_to_shared(halo_desc, [row, strip * COLS + COLS - 1, c * 64], bar, side, pred=wanted)


@gluon.jit
def _multiply(acc, ring, weights, bars, k, COLS: gl.constexpr, CHUNKS: gl.constexpr, RING: gl.constexpr):
    """Start the products of the program's k-th output row. The newest input row comes last."""
    flat: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    pixels = ring._reinterpret(gl.float16, [RING * CHUNKS * (COLS + 8), 1, 64], flat)
    for dy in gl.static_range(3):
        slot = (k + dy) % RING
        if dy == 2:
            mbarrier.wait(bars.index(slot), ((k + dy) // RING) & 1)
        for c in gl.static_range(CHUNKS):
            start = (slot * CHUNKS + c) * (COLS + 8)
            for dx in gl.static_range(3):
                b = pixels.index(start + dx)._reinterpret(gl.float16, [COLS, 64], flat).permute([1, 0])
                a = weights.index((dy * 3 + dx) * CHUNKS + c)
                acc = warpgroup_mma(a, b, acc, use_acc=(dy + dx + c) > 0, is_async=True)
    return acc


@gluon.jit
def _finish(
    acc, out_desc, staging, bias, sums_ptr, k, first, total, height, width, strips,
    COLS: gl.constexpr, STAGES: gl.constexpr, HAS_BIAS: gl.constexpr, HAS_SUMS: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Store an output row and leave its group sums."""
    v = first + k
    row, strip, frame, y = _place(v, total, height, strips)
    if HAS_BIAS:
        acc += bias[:, None]
    tma.store_wait(STAGES - 1)
    buffer = staging.index(k % STAGES)
    buffer.permute([1, 0]).store(acc.to(gl.float16))
    fence_async_shared()
    tma.async_copy_shared_to_global(
        out_desc, [row, strip * COLS, 0], buffer._reinterpret(gl.float16, [1, COLS, 64], out_desc.layout)
    )
    if HAS_SUMS:
        inside = (v < total) & (y >= 0) & (y < height)
        x = strip * COLS + gl.arange(0, COLS, layout=gl.SliceLayout(0, LAYOUT))
        kept = gl.where((x < width)[None, :], acc, 0.0)
        sums = gl.sum(gl.sum(kept, axis=1).reshape([8, 8]), axis=1)
        squares = gl.sum(gl.sum(kept * kept, axis=1).reshape([8, 8]), axis=1)
        place = sums_ptr + ((frame * strips + strip) * height + y) * 16 + gl.arange(0, 8, layout=sums.type.layout)
        gl.store(place, sums, mask=inside)
        gl.store(place + 8, squares, mask=inside)


@gluon.jit(do_not_specialize=["height", "width", "total", "steps", "strips"])
def conv3x3_kernel(
    x_desc,  # [B * h, w, CHUNKS * 64] fp16, block [1, COLS, 64]
    halo_desc,  # the same map, block [1, 8, 64]
    weight_desc,  # [9 * 64, CHUNKS * 64] fp16, block [64, 64]
    bias_ptr,  # [64] fp32
    out_desc,  # [B * h, w, 64] fp16, block [1, COLS, 64]
    sums_ptr,  # [B, strips * h, 2, 8] fp32
    height, width,
    total,  # steps of all programs together: frames x strips x (h + 2)
    steps,  # steps per program, odd
    strips,  # per frame
    COLS: gl.constexpr, CHUNKS: gl.constexpr, RING: gl.constexpr, STAGES: gl.constexpr,
    HAS_BIAS: gl.constexpr, HAS_SUMS: gl.constexpr,
):  # fmt: skip
    rows: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLS, 16])
    first = gl.program_id(0) * steps
    weights = gl.allocate_shared_memory(gl.float16, [9 * CHUNKS, 64, 64], rows)
    ring = gl.allocate_shared_memory(gl.float16, [RING * CHUNKS * (COLS // 8 + 1), 8, 64], rows)
    staging = gl.allocate_shared_memory(gl.float16, [STAGES, COLS, 64], rows)
    bars = gl.allocate_shared_memory(gl.int64, [RING + 1, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(RING + 1):
        mbarrier.init(bars.index(slot), count=1)
    fence_async_shared()

    ready = bars.index(RING)
    mbarrier.expect(ready, 9 * CHUNKS * 64 * 128)
    for tap in gl.static_range(9):
        for c in gl.static_range(CHUNKS):
            tma.async_copy_global_to_shared(weight_desc, [tap * 64, c * 64], ready, weights.index(tap * CHUNKS + c))
    for j in gl.static_range(RING):
        _fetch(x_desc, halo_desc, ring, bars, j, first, steps, total, height, strips, COLS, CHUNKS, RING)

    bias = gl.full([64], 0.0, gl.float32, layout=gl.SliceLayout(1, LAYOUT))
    if HAS_BIAS:
        bias = gl.load(bias_ptr + gl.arange(0, 64, layout=gl.SliceLayout(1, LAYOUT)))
    zeros = gl.full([64, COLS], 0.0, gl.float32, layout=LAYOUT)
    mbarrier.wait(ready, 0)
    mbarrier.wait(bars.index(0), 0)
    mbarrier.wait(bars.index(1), 0)
    one = _multiply(warpgroup_mma_init(zeros), ring, weights, bars, 0, COLS, CHUNKS, RING)
    done = warpgroup_mma_wait(0, deps=[one])  # nothing may be under way when the loop turns: ptxas would serialise it
    for k in range(0, steps - 1, 2):
        two = _multiply(warpgroup_mma_init(zeros), ring, weights, bars, k + 1, COLS, CHUNKS, RING)
        _finish(
            done, out_desc, staging, bias, sums_ptr, k, first, total, height, width, strips,
            COLS, STAGES, HAS_BIAS, HAS_SUMS, LAYOUT,
        )  # fmt: skip
        _fetch(x_desc, halo_desc, ring, bars, k + RING, first, steps, total, height, strips, COLS, CHUNKS, RING)
        one = _multiply(warpgroup_mma_init(zeros), ring, weights, bars, k + 2, COLS, CHUNKS, RING)
        other = warpgroup_mma_wait(7, deps=[two])  # the most that can be under way; a row is at least nine products
        _finish(
            other, out_desc, staging, bias, sums_ptr, k + 1, first, total, height, width, strips,
            COLS, STAGES, HAS_BIAS, HAS_SUMS, LAYOUT,
        )  # fmt: skip
        _fetch(x_desc, halo_desc, ring, bars, k + 1 + RING, first, steps, total, height, strips, COLS, CHUNKS, RING)
        done = warpgroup_mma_wait(0, deps=[one])
    _finish(
        done, out_desc, staging, bias, sums_ptr, steps - 1, first, total, height, width, strips,
        COLS, STAGES, HAS_BIAS, HAS_SUMS, LAYOUT,
    )  # fmt: skip
    tma.store_wait(0)
    for slot in gl.static_range(RING + 1):
        mbarrier.invalidate(bars.index(slot))
