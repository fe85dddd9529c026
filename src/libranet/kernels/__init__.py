"""Operations on tensors, one folder each: `reference.py` in plain torch beside its kernels, `triton.py` and `gluon.py`.

Kernels are launched by `gpu.py` and `hopper.py`, which import no Triton: machine code that was shipped (`shipped.py`)
runs without it. Operations for training alone are launched in `triton.py`. Reference and launches have functions of the
same names and parameters, so that one can stand in for the other:

- A function whose name ends in `_out` writes into tensors that the caller made; every other function returns new
  tensors and is differentiable. References compute in float64 or float32 and write into tensors of any precision.
- The reference lacks parameters that only say how a kernel computes: `tile` (its launch configuration, `tiles.py`),
  `scratch` (a tensor for intermediate results), `bands` (matrices laid out for its fetches) and `codes` (a frame format
  in numbers).
- A tensor of partial sums has one row per program. Only the sum over rows is defined: the reference fills the first.
- Functions that pack weights into the layout of the kernels are in `reference.py`, which reads that layout, too.

Kernels for CPUs are in C (`native`). `color_field/field.py` keeps to these rules. `panels.py` does not: for speed its
maps have borders and its weights panels, and tests hold it to torch's own layers and to the resampling reference
instead.
"""
