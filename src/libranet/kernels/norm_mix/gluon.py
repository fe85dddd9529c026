# mypy: disable-error-code="no-untyped-def"
"""Normalise + GELU + 1x1 mix + skip on Hopper, weight-stationary.

Programs keep the mix's weights in shared memory and fetch the next pixels while they work on these.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma


@gluon.jit
def _gelu(x):
    """`libranet.kernels.gelu.gelu` in this language."""
    x2 = gl.minimum(x * x, 20.0)
    root = gl.rsqrt(1.0 + gl.exp2(x * (x2 * (x2 * 0.00101485 - 0.10677936) - 2.3011173)))
    return x * root * root


@gluon.jit
def _fetch(raw_desc, skip_desc, slots, bars, step, tile, tiles, blocks, RING: gl.constexpr):
    """Start fetching one block of pixels of both maps; nothing beyond the last."""
    slot = step % RING
    bar = bars.index(slot)
    wanted = tile < tiles
    at = [tile // blocks, (tile % blocks) * 128, 0]
    mbarrier.expect(bar, 2 * 128 * 128, pred=wanted)
    place = slots.index(slot * 2)._reinterpret(gl.float16, [1, 128, 64], raw_desc.layout)
    tma.async_copy_global_to_shared(raw_desc, at, bar, place, pred=wanted)
    place = slots.index(slot * 2 + 1)._reinterpret(gl.float16, [1, 128, 64], skip_desc.layout)
    tma.async_copy_global_to_shared(skip_desc, at, bar, place, pred=wanted)


@gluon.jit(do_not_specialize=["tiles", "blocks"])
def normalise_mix_kernel(
    raw_desc,  # [B, pixels, 64] fp16, block [1, 128, 64]
    skip_desc,  # likewise
    mix_desc,  # [64 out, 64 in] fp16, whole
    fold_ptr,  # [B, 2, 64] fp32
    mix_bias_ptr,  # [64] fp32
    out_desc,  # [B, pixels, 64] fp16, block [1, 128, 64]
    tiles,  # blocks of pixels of all frames
    blocks,  # per frame
    RING: gl.constexpr,
):  # fmt: skip
    rows: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    product: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, product, 2)
    slots = gl.allocate_shared_memory(gl.float16, [RING * 2, 128, 64], rows)
    mix = gl.allocate_shared_memory(gl.float16, [64, 64], rows)
    bars = gl.allocate_shared_memory(gl.int64, [RING + 1, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(RING + 1):
        mbarrier.init(bars.index(i), count=1)
    fence_async_shared()
    first, stride = gl.program_id(0), gl.num_programs(0)
    for i in gl.static_range(RING - 1):
        _fetch(raw_desc, skip_desc, slots, bars, i, first + i * stride, tiles, blocks, RING)
    mbarrier.expect(bars.index(RING), 64 * 128)
    tma.async_copy_global_to_shared(mix_desc, [0, 0], bars.index(RING), mix)
    bias = gl.load(mix_bias_ptr + gl.arange(0, 64, layout=gl.SliceLayout(0, product)))
    channel = gl.arange(0, 64, layout=gl.SliceLayout(0, operand))
    mbarrier.wait(bars.index(RING), 0)
    step = 0
    for tile in range(first, tiles, stride):
        fold = fold_ptr + (tile // blocks) * 128 + channel
        factor, summand = gl.load(fold), gl.load(fold + 64)
        slot = step % RING
        mbarrier.wait(bars.index(slot), (step // RING) & 1)
        raw = slots.index(slot * 2)
        y = _gelu(raw.load(operand).to(gl.float32) * factor[None, :] + summand[None, :])
        acc = slots.index(slot * 2 + 1).load(product).to(gl.float32) + bias[None, :]
        acc = warpgroup_mma(y.to(gl.float16), mix.permute([1, 0]), acc)
        # The slot of the step before was handed to its store; once that has read it, it takes the next fetch.
        tma.store_wait(0)
        _fetch(raw_desc, skip_desc, slots, bars, step + RING - 1, tile + (RING - 1) * stride, tiles, blocks, RING)
        raw.store(acc.to(gl.float16))
        fence_async_shared()
        at = [tile // blocks, (tile % blocks) * 128, 0]
        tma.async_copy_shared_to_global(out_desc, at, raw._reinterpret(gl.float16, [1, 128, 64], out_desc.layout))
        step += 1  # noqa: SIM113 - compiled, not run
    tma.store_wait(0)
