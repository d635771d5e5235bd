"""Vectors of sixteen numbers that go through the same arithmetic side by side ("lanes").

The compiler seldom vectorises short loops over rows of arrays, because it must assume that the rows overlap. A value of
type Lanes is an LLVM vector, and a sum or product of two takes one to eight instructions, depending on the processor.
Each lane is summed in the order in which the code is written, so results do not depend on the processor. Without
compilation the same functions work on rows of NumPy arrays.

A *row* is sixteen neighbours in a contiguous array of float64 that begins at a multiple of 64 bytes (`lane_zeros`):
other rows would straddle two cache lines, at half the speed. Rows are counted from the beginning of the array, whatever
its shape; nothing checks that a row exists.
"""

# Numba's extension points have no types.
# mypy: disable-error-code="no-untyped-call, misc, untyped-decorator"

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from keyhole.kernels.jit import config
from keyhole.kernels.state import Floats

LANES = 16
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
BYTES = 64


def lane_zeros(shape: tuple[int, ...]) -> Floats:
    """Return zeros that begin at a multiple of 64 bytes."""
    size = int(np.prod(shape))
    room = np.zeros(size + BYTES // 8)
    first = -room.ctypes.data % BYTES // 8
    return room[first : first + size].reshape(shape)


class LanesType(types.Type):
    """The type of sixteen numbers, as the compiler sees it."""

    def __init__(self) -> None:
        super().__init__(name=f"Lanes{LANES}")


SIXTEEN = LanesType()


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    """Store the value in vector registers."""

    def __init__(self, manager, kind) -> None:
        super().__init__(manager, kind, VECTOR)


def _find_row(context, builder, kind, array, row):
    """Return the address of a row."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [builder.mul(row, row.type(LANES))]), VECTOR.as_pointer())


@intrinsic
def _load(typing, array, row):
    def emit(context, builder, signature, arguments):
        value = builder.load(_find_row(context, builder, signature.args[0], *arguments))
        value.align = 8
        return value

    return SIXTEEN(array, types.int64), emit


@intrinsic
def _store(typing, array, row, value):
    def emit(context, builder, signature, arguments):
        place = _find_row(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], place).align = 8
        return context.get_dummy_value()

    return types.void(array, types.int64, SIXTEEN), emit


@intrinsic
def _spread(typing, value):
    def emit(context, builder, signature, arguments):
        nothing, index = ir.Constant(VECTOR, ir.Undefined), ir.IntType(32)
        first = builder.insert_element(nothing, arguments[0], index(0))
        return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(index, LANES), [0] * LANES))

    return SIXTEEN(types.float64), emit


def _type_pair(context):
    """Return the typing rule: arithmetic on two Lanes gives Lanes."""

    def typer(left, right):
        return SIXTEEN if left == SIXTEEN and right == SIXTEEN else None

    return typer


def _lower_pair(instruction):
    """Return the function that emits this instruction for two Lanes."""

    def lower(context, builder, signature, arguments):
        return getattr(builder, instruction)(*arguments)

    return lower


for _operator, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    type_callable(_operator)(_type_pair)
    lower_builtin(_operator, LanesType, LanesType)(_lower_pair(_instruction))


def _load_plainly(array: Floats, row: int) -> Floats:
    return np.array(array.reshape(-1, LANES)[row])


def _store_plainly(array: Floats, row: int, value: Floats) -> None:
    array.reshape(-1, LANES)[row] = value


def _spread_plainly(value: float) -> Floats:
    return np.full(LANES, value)


# Signatures: load(array, row) -> Lanes; store(array, row, value); spread(number) -> Lanes.
load: Any = _load_plainly if config.DISABLE_JIT else _load
store: Any = _store_plainly if config.DISABLE_JIT else _store
spread: Any = _spread_plainly if config.DISABLE_JIT else _spread
