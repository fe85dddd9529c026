"""Vector instructions inside numba kernels: small blocks of float32 code that numba's own vectoriser does not find.

Each maker returns a function for kernels. Arrays are contiguous float32; places are offsets in elements. Vectors have
eight lanes; a compiler for wider or narrower registers splits or joins them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
"""Floats of a vector: 256 bits."""
GELU_END = 4.3
"""|x| from which the polynomial below is held."""
GELU_TERMS = (
    0.398802077, -0.0661555908, 0.00969514597, -0.00107138559, 8.71175316e-05,
    -5.00615574e-06, 1.90223204e-07, -4.24897279e-09, 4.19741308e-11,
)  # fmt: skip
"""(Phi(x) - 1/2) / x as a polynomial of x squared, lowest power first, fitted over [-4.3, 4.3]: GELU within 6e-5."""

_FLOAT = ir.FloatType()


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
        return self.builder.load(self.builder.bitcast(pointer, self.type.as_pointer()), align=4)

    def store(self, value: ir.Value, pointer: ir.Value) -> None:
        self.builder.store(value, self.builder.bitcast(pointer, self.type.as_pointer()), align=4)

    def spread(self, scalar: ir.Value) -> ir.Value:
        """A vector of one value."""
        first = self.builder.insert_element(ir.Constant(self.type, ir.Undefined), scalar, ir.IntType(32)(0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, ir.Constant(self.type, ir.Undefined), mask)

    def constant(self, value: float) -> ir.Value:
        return ir.Constant(self.type, [value] * self.lanes)

    def integer(self, value: int) -> ir.Value:
        return ir.IntType(64)(value)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c."""
        return self._call("llvm.fma", a, b, c)

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

    def _call(self, name: str, *values: ir.Value) -> ir.Value:
        full = f"{name}.v{self.lanes}f32"
        kind = ir.FunctionType(self.type, [self.type] * len(values))
        function = cgutils.get_or_insert_function(self.builder.module, kind, full)
        return self.builder.call(function, values)


def make_multiply(rows: int, vectors: int, lanes: int, *, bias: bool = False, skip: bool = False) -> Any:
    """A block of a matrix product, its sums in registers.

    The function takes (a, place, step, b, place, step, c, place, step, depth, bias, place, skip, place, step) and
    computes, for `rows` rows and `vectors * lanes` columns, c = a @ b, plus the bias, plus the block of `skip`. Steps
    are the elements from one row to the next.
    """

    @intrinsic
    def multiply(typing, a, a0, a_step, b, b0, b_step, c, c0, c_step, depth, bias_, bias0, skip_, skip0, skip_step):  # type: ignore[no-untyped-def]
        names = (a, a0, a_step, b, b0, b_step, c, c0, c_step, depth, bias_, bias0, skip_, skip0, skip_step)
        signature = types.void(*[t if isinstance(t, types.Array) else types.intp for t in names])

        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            code = Code(context, builder, lanes)
            kinds = signature.args
            a, a0, a_step, b, b0, b_step, c, c0, c_step, depth, bias_, bias0, skip_, skip0, skip_step = args
            a_row = [code.at(code.base(kinds[0], a), _line(builder, a0, a_step, row)) for row in range(rows)]
            b_base = code.at(code.base(kinds[3], b), b0)
            c_row = [code.at(code.base(kinds[6], c), _line(builder, c0, c_step, row)) for row in range(rows)]
            zero = code.constant(0.0)
            start = [[zero] * vectors for _ in range(rows)]
            if bias:
                base = code.at(code.base(kinds[10], bias_), bias0)
                line = [code.load(code.at(base, code.integer(v * lanes))) for v in range(vectors)]
                start = [list(line) for _ in range(rows)]
            if skip:
                base = code.base(kinds[12], skip_)
                for row in range(rows):
                    begin = code.at(base, _line(builder, skip0, skip_step, row))
                    for v in range(vectors):
                        more = code.load(code.at(begin, code.integer(v * lanes)))
                        start[row][v] = builder.fadd(start[row][v], more) if bias else more
            before = builder.block
            loop, end = builder.append_basic_block("products"), builder.append_basic_block("stored")
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(ir.IntType(64))
            k.add_incoming(code.integer(0), before)
            place = builder.phi(ir.IntType(64))
            place.add_incoming(code.integer(0), before)
            sums = [[builder.phi(code.type) for _ in range(vectors)] for _ in range(rows)]
            for row in range(rows):
                for v in range(vectors):
                    sums[row][v].add_incoming(start[row][v], before)
            line = code.at(b_base, place)
            columns = [code.load(code.at(line, code.integer(v * lanes))) for v in range(vectors)]
            for row in range(rows):
                factor = code.spread(builder.load(code.at(a_row[row], k), align=4))
                for v in range(vectors):
                    added = code.fma(factor, columns[v], sums[row][v])
                    sums[row][v].add_incoming(added, loop)
                    start[row][v] = added
            following = builder.add(k, code.integer(1))
            k.add_incoming(following, loop)
            place.add_incoming(builder.add(place, b_step), loop)
            builder.cbranch(builder.icmp_signed("<", following, depth), loop, end)
            builder.position_at_end(end)
            for row in range(rows):
                for v in range(vectors):
                    code.store(start[row][v], code.at(c_row[row], code.integer(v * lanes)))
            return context.get_dummy_value()

        return signature, generate

    return multiply


def make_block(generate: Callable[..., None], arrays: int, places: int) -> Any:
    """A straight block of vector code.

    Args:
        generate: Gets the code writer, the addresses of the arrays' first elements, and the places as integers.
        arrays: How many arrays the function takes first.
        places: How many integers follow.
    """

    @intrinsic
    def block(typing, given, numbers):  # type: ignore[no-untyped-def]
        assert len(given) == arrays
        assert len(numbers) == places
        signature = types.void(given, types.UniTuple(types.intp, places))

        def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
            code = Code(context, builder)
            bases = [
                code.base(kind, builder.extract_value(args[0], index)) for index, kind in enumerate(signature.args[0])
            ]
            generate(code, bases, [builder.extract_value(args[1], index) for index in range(places)])
            return context.get_dummy_value()

        return signature, emit

    return block


def _line(builder: ir.IRBuilder, first: ir.Value, step: ir.Value, row: int) -> ir.Value:
    return builder.add(first, builder.mul(step, ir.IntType(64)(row)))
