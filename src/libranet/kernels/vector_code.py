"""Vector instructions inside numba kernels: small blocks of code that numba's own vectoriser does not find.

Each maker returns a function for kernels. Arrays are contiguous; places are offsets in elements. Arrays of float32 hold
numbers as they are, arrays of uint16 hold them in bfloat16; blocks compute in float32 and convert where they load and
store. Products of two bfloat16 arrays take AVX512-BF16.
"""

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding
import numpy as np
import torch
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic
from torch import Tensor

_CHOSEN: str | None = config.CPU_FEATURES  # type: ignore[attr-defined]
_FEATURES = (get_host_cpu_features() if _CHOSEN is None else _CHOSEN).split(",")
"""What numba compiles for: the host's instructions, or those of NUMBA_CPU_FEATURES."""
WIDE = "+avx512f" in _FEATURES
"""Whether registers have 512 bits, and are 32 instead of 16."""
HAS_BFLOAT16 = all(f"+{name}" in _FEATURES for name in ("avx512bf16", "avx512vl", "avx512bw"))
"""Whether the CPU multiplies bfloat16."""
LANES = 16 if WIDE else 8
"""Floats of a vector."""
PANEL = 16
"""Columns of a matrix product that are stored side by side."""
GELU_END = 4.3
"""|x| from which the polynomial below is held."""
GELU_TERMS = (
    0.398802077, -0.0661555908, 0.00969514597, -0.00107138559, 8.71175316e-05,
    -5.00615574e-06, 1.90223204e-07, -4.24897279e-09, 4.19741308e-11,
)  # fmt: skip
"""(Phi(x) - 1/2) / x as a polynomial of x squared, lowest power first, fitted over [-4.3, 4.3]: GELU within 6e-5."""

_FLOAT, _SHORT, _WORD = ir.FloatType(), ir.IntType(16), ir.IntType(32)


def stored(values: Tensor, dtype: type[np.generic]) -> np.ndarray:
    """Numbers as kernels store them: float32, or bfloat16 in uint16."""
    if dtype is np.float32:
        return values.detach().float().contiguous().numpy()
    return values.detach().bfloat16().contiguous().view(torch.int16).numpy().view(np.uint16)


class Code:
    """Writes vector instructions into the function that numba is compiling."""

    def __init__(self, context: Any, builder: ir.IRBuilder, lanes: int = LANES) -> None:
        self.context, self.builder, self.lanes = context, builder, lanes
        self.type = ir.VectorType(_FLOAT, lanes)

    def base(self, array_type: Any, array: ir.Value) -> ir.Value:
        """The first element's address."""
        return self.context.make_array(array_type)(self.context, self.builder, value=array).data

    def at(self, base: ir.Value, place: ir.Value) -> ir.Value:
        """The address of an element."""
        return self.builder.gep(base, [place], inbounds=True)

    def load(self, pointer: ir.Value) -> ir.Value:
        """Floats, from an address of float32 or of bfloat16."""
        b = self.builder
        if pointer.type.pointee == _FLOAT:
            return b.load(b.bitcast(pointer, self.type.as_pointer()), align=4)
        short = b.load(b.bitcast(pointer, ir.VectorType(_SHORT, self.lanes).as_pointer()), align=2)
        words = ir.VectorType(_WORD, self.lanes)
        return b.bitcast(b.shl(b.zext(short, words), ir.Constant(words, [16] * self.lanes)), self.type)

    def store(self, value: ir.Value, pointer: ir.Value) -> None:
        """Floats, to an address of float32 or of bfloat16."""
        b = self.builder
        if pointer.type.pointee == _FLOAT:
            b.store(value, b.bitcast(pointer, self.type.as_pointer()), align=4)
            return
        count = max(8, self.lanes)  # the instruction fills a register of 128 bits at least
        short = self._instruct("vcvtneps2bf16 $1, $0", "=v,v", ir.VectorType(_SHORT, count), value)
        if count != self.lanes:
            mask = ir.Constant(ir.VectorType(_WORD, self.lanes), list(range(self.lanes)))
            short = b.shuffle_vector(short, ir.Constant(short.type, ir.Undefined), mask)
        b.store(short, b.bitcast(pointer, short.type.as_pointer()), align=2)

    def spread(self, scalar: ir.Value) -> ir.Value:
        """A vector of one value."""
        kind = ir.VectorType(scalar.type, self.lanes)
        first = self.builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, _WORD(0))
        mask = ir.Constant(ir.VectorType(_WORD, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), mask)

    def constant(self, value: float) -> ir.Value:
        return ir.Constant(self.type, [value] * self.lanes)

    def integer(self, value: int) -> ir.Value:
        return ir.IntType(64)(value)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c."""
        return self._call("llvm.fma", a, b, c)

    def fma_pairs(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a[0] * b[0] + a[1] * b[1] + c, where each word of `a` and `b` holds two bfloat16."""
        return self._instruct("vdpbf16ps $3, $2, $0", "=v,0,v,v", self.type, c, a, b)

    def smaller(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._call("llvm.minnum", a, b)

    def larger(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._call("llvm.maxnum", a, b)

    def combine(self, terms: Sequence[tuple[float, ir.Value]]) -> ir.Value:
        """A sum of vectors times constants."""
        total: ir.Value | None = None
        for factor, value in sorted(terms, key=lambda term: abs(abs(term[0]) - 1.0) > 0):
            if total is None:
                total = value if factor == 1.0 else self.builder.fmul(value, self.constant(factor))
            elif factor == 1.0:
                total = self.builder.fadd(total, value)
            elif factor == -1.0:
                total = self.builder.fsub(total, value)
            else:
                total = self.fma(value, self.constant(factor), total)
        assert total is not None
        return total

    def gelu(self, x: ir.Value) -> ir.Value:
        """x * Phi(x)."""
        held = self.larger(self.smaller(x, self.constant(GELU_END)), self.constant(-GELU_END))
        square = self.builder.fmul(held, held)
        total = self.constant(GELU_TERMS[-1])
        for term in reversed(GELU_TERMS[:-1]):
            total = self.fma(total, square, self.constant(term))
        return self.builder.fmul(x, self.fma(held, total, self.constant(0.5)))

    def _instruct(self, text: str, registers: str, result: ir.Type, *values: ir.Value) -> ir.Value:
        """An instruction by its name: LLVM changes the types of its functions for bfloat16 from version to version."""
        llvmlite.binding.initialize_native_asmparser()
        return self.builder.asm(ir.FunctionType(result, [v.type for v in values]), text, registers, values, False)

    def _call(self, name: str, *values: ir.Value) -> ir.Value:
        full = f"{name}.v{self.lanes}f32"
        kind = ir.FunctionType(self.type, [self.type] * len(values))
        function = cgutils.get_or_insert_function(self.builder.module, kind, full)
        return self.builder.call(function, values)


def make_multiply(rows: int, panels: int, *, bias: bool = False, skip: bool = False, parts: int = 1) -> Any:
    """A block of a matrix product, its sums in registers.

    The function takes (a, place, step, part, b, place, step, c, place, step, depth, bias, place, skip, place, step) and
    computes, for `rows` rows and `panels` panels of columns, c = a @ b, plus the bias, plus the block of `skip`. The
    steps of `a`, `c` and `skip` are the elements from one row to the next, that of `b` those from panel to panel. `b`
    has `parts * depth` rows; those of `a` are in so many parts, each `depth` long and `part` elements behind the other.
    Where `a` and `b` are in bfloat16, `depth` is even and two rows of `b` lie interleaved.
    """

    @intrinsic
    def multiply(  # type: ignore[no-untyped-def]
        typing, a, a0, a_step, a_part, b, b0, b_step, c, c0, c_step, depth, bias_, bias0, skip_, skip0, skip_step
    ):
        names = (a, a0, a_step, a_part, b, b0, b_step, c, c0, c_step, depth, bias_, bias0, skip_, skip0, skip_step)
        signature = types.void(*[t if isinstance(t, types.Array) else types.intp for t in names])

        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            code = Code(context, builder)
            kinds = signature.args
            a, a0, a_step, a_part, b, b0, b_step, c, c0, c_step, depth, bias_, bias0, skip_, skip0, skip_step = args
            pairs = kinds[0].dtype == types.uint16
            assert kinds[4].dtype == kinds[0].dtype
            columns = [(panel, lane) for panel in range(panels) for lane in range(0, PANEL, LANES)]
            a_row = [code.at(code.base(kinds[0], a), _line(builder, a0, a_step, row)) for row in range(rows)]
            b_base = code.at(code.base(kinds[4], b), b0)
            c_row = [code.at(code.base(kinds[7], c), _line(builder, c0, c_step, row)) for row in range(rows)]
            sums = [[code.constant(0.0)] * len(columns) for _ in range(rows)]
            if bias:
                base = code.at(code.base(kinds[11], bias_), bias0)
                line = [code.load(code.at(base, code.integer(p * PANEL + lane))) for p, lane in columns]
                sums = [list(line) for _ in range(rows)]
            if skip:
                base = code.base(kinds[13], skip_)
                for row in range(rows):
                    begin = code.at(base, _line(builder, skip0, skip_step, row))
                    for v, (p, lane) in enumerate(columns):
                        more = code.load(code.at(begin, code.integer(p * PANEL + lane)))
                        sums[row][v] = builder.fadd(sums[row][v], more) if bias else more
            steps = builder.lshr(depth, code.integer(1)) if pairs else depth
            for part in range(parts):
                begin = builder.mul(a_part, code.integer(part))
                b_begin = builder.mul(builder.mul(depth, code.integer(part)), code.integer(PANEL))
                b_line = [
                    code.at(b_base, builder.add(b_begin, builder.mul(b_step, code.integer(p)))) for p in range(panels)
                ]
                sums = _accumulate(code, [code.at(row, begin) for row in a_row], b_line, columns, steps, sums, pairs)
            for row in range(rows):
                for v, (p, lane) in enumerate(columns):
                    code.store(sums[row][v], code.at(c_row[row], code.integer(p * PANEL + lane)))
            return context.get_dummy_value()

        return signature, generate

    return multiply


def _accumulate(code, a_row, b_line, columns, steps, start, pairs):  # type: ignore[no-untyped-def]
    """The loop over a matrix product's depth: `start` plus the products of rows and columns."""
    builder, each = code.builder, 2 if pairs else 1
    words = ir.VectorType(_WORD, LANES)
    if pairs:
        a_row = [builder.bitcast(row, _WORD.as_pointer()) for row in a_row]
    before = builder.block
    loop, end = builder.append_basic_block("products"), builder.append_basic_block("summed")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(ir.IntType(64))
    k.add_incoming(code.integer(0), before)
    sums = [[builder.phi(code.type) for _ in line] for line in start]
    place = builder.mul(k, code.integer(each * PANEL))
    right = []
    for panel, lane in columns:
        pointer = code.at(b_line[panel], builder.add(place, code.integer(each * lane)))
        right.append(
            builder.load(builder.bitcast(pointer, words.as_pointer()), align=4) if pairs else code.load(pointer)
        )
    results = []
    for row, line in enumerate(sums):
        left = code.spread(builder.load(code.at(a_row[row], k), align=each * 2 if pairs else 4))
        multiply = code.fma_pairs if pairs else code.fma
        results.append([multiply(left, right[v], total) for v, total in enumerate(line)])
    following = builder.add(k, code.integer(1))
    k.add_incoming(following, loop)
    for line, first, result in zip(sums, start, results, strict=True):
        for total, begin, added in zip(line, first, result, strict=True):
            total.add_incoming(begin, before)
            total.add_incoming(added, loop)
    builder.cbranch(builder.icmp_signed("<", following, steps), loop, end)
    builder.position_at_end(end)
    return results


def make_block(generate: Callable[..., None], arrays: int, places: int, *, lanes: int = LANES) -> Any:
    """A straight block of vector code.

    Args:
        generate: Gets the code writer, the addresses of the arrays' first elements, and the places as integers.
        arrays: How many arrays the function takes first.
        places: How many integers follow.
        lanes: Floats of its vectors.
    """

    @intrinsic
    def block(typing, given, numbers):  # type: ignore[no-untyped-def]
        assert len(given) == arrays
        assert len(numbers) == places
        signature = types.void(given, types.UniTuple(types.intp, places))

        def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
            code = Code(context, builder, lanes)
            bases = [
                code.base(kind, builder.extract_value(args[0], index)) for index, kind in enumerate(signature.args[0])
            ]
            generate(code, bases, [builder.extract_value(args[1], index) for index in range(places)])
            return context.get_dummy_value()

        return signature, emit

    return block


def _line(builder: ir.IRBuilder, first: ir.Value, step: ir.Value, row: int) -> ir.Value:
    return builder.add(first, builder.mul(step, ir.IntType(64)(row)))
