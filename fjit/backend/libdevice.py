"""Which elementary functions are libdevice's on an NVIDIA GPU, and which stay our own.

Takes a primitive and a width, gives the name of a function in CUDA's library of device functions,
or None. Invariant: what is chosen has a documented error within the bound that results are promised
(1 unit in the last place; 4 under `fastmath={"approx"}`) and is shorter than our form; everything
else is our form, which then gives the bits that it gives on a CPU.

    exact("log", 32)   ->   "__nv_logf"
    exact("exp", 32)   ->   None: documented with 2 units in the last place

Errors: CUDA C++ Programming Guide, "Mathematical Functions", maximum over the full range as the
distance from the correctly rounded result. Counts: PTX instructions that libNVVM 13.5 makes of our
form and of libdevice's for sm_75 and sm_100, loads and stores left out.
"""

from typing import NamedTuple

BOUND = 1.0
APPROXIMATE_BOUND = 4.0


class Row(NamedTuple):
    """One function: CUDA's documented error, and the instructions of ours and of libdevice's."""

    name: str
    ulp: float
    ours: tuple[int, int]
    theirs: tuple[int, int]


# fmt: off
ROWS: dict[tuple[str, int], Row] = {
    # primitive, bits     function      ulp  ours        theirs
    ("exp", 32):    Row("__nv_expf",    2,  (29, 26),   (18, 12)),
    ("exp", 64):    Row("__nv_exp",     1,  (36, 33),   (59, 43)),
    ("exp2", 32):   Row("__nv_exp2f",   2,  (30, 27),   (1, 1)),
    ("exp2", 64):   Row("__nv_exp2",    1,  (36, 33),   (61, 48)),
    ("expm1", 32):  Row("__nv_expm1f",  1,  (41, 39),   (40, 27)),
    ("expm1", 64):  Row("__nv_expm1",   1,  (50, 48),   (66, 48)),
    ("log", 32):    Row("__nv_logf",    1,  (43, 40),   (40, 26)),
    ("log", 64):    Row("__nv_log",     1,  (55, 52),   (80, 66)),
    ("log2", 32):   Row("__nv_log2f",   1,  (53, 50),   (43, 28)),
    ("log2", 64):   Row("__nv_log2",    1,  (65, 62),   (83, 68)),
    ("log10", 32):  Row("__nv_log10f",  2,  (55, 52),   (41, 27)),
    ("log10", 64):  Row("__nv_log10",   1,  (67, 64),   (83, 68)),
    ("log1p", 32):  Row("__nv_log1pf",  1,  (58, 53),   (46, 28)),
    ("log1p", 64):  Row("__nv_log1p",   1,  (70, 65),   (113, 89)),
    ("sin", 32):    Row("__nv_sinf",    2,  (178, 157), (120, 98)),
    ("sin", 64):    Row("__nv_sin",     2,  (142, 127), (197, 192)),
    ("cos", 32):    Row("__nv_cosf",    2,  (176, 156), (121, 99)),
    ("cos", 64):    Row("__nv_cos",     2,  (140, 126), (198, 193)),
    ("tan", 32):    Row("__nv_tanf",    4,  (194, 173), (125, 98)),
    ("tan", 64):    Row("__nv_tan",     2,  (158, 143), (223, 202)),
    ("asin", 32):   Row("__nv_asinf",   2,  (45, 45),   (34, 24)),
    ("asin", 64):   Row("__nv_asin",    2,  (54, 54),   (92, 60)),
    ("acos", 32):   Row("__nv_acosf",   2,  (50, 50),   (38, 27)),
    ("acos", 64):   Row("__nv_acos",    2,  (59, 59),   (114, 84)),
    ("atan", 32):   Row("__nv_atanf",   2,  (48, 48),   (31, 22)),
    ("atan", 64):   Row("__nv_atan",    2,  (55, 55),   (57, 37)),
    ("atan2", 32):  Row("__nv_atan2f",  3,  (123, 105), (56, 35)),
    ("atan2", 64):  Row("__nv_atan2",   2,  (159, 147), (76, 56)),
    ("sinh", 32):   Row("__nv_sinhf",   3,  (52, 48),   (37, 28)),
    ("sinh", 64):   Row("__nv_sinh",    2,  (58, 54),   (86, 60)),
    ("cosh", 32):   Row("__nv_coshf",   2,  (49, 45),   (24, 19)),
    ("cosh", 64):   Row("__nv_cosh",    1,  (55, 51),   (57, 40)),
    ("tanh", 32):   Row("__nv_tanhf",   2,  (39, 37),   (24, 17)),
    ("tanh", 64):   Row("__nv_tanh",    1,  (63, 61),   (80, 54)),
    ("asinh", 32):  Row("__nv_asinhf",  3,  (71, 66),   (60, 42)),
    ("asinh", 64):  Row("__nv_asinh",   3,  (83, 78),   (141, 115)),
    ("acosh", 32):  Row("__nv_acoshf",  4,  (72, 64),   (62, 44)),
    ("acosh", 64):  Row("__nv_acosh",   3,  (84, 76),   (139, 115)),
    ("atanh", 32):  Row("__nv_atanhf",  3,  (57, 53),   (56, 38)),
    ("atanh", 64):  Row("__nv_atanh",   2,  (62, 58),   (120, 96)),
    ("cbrt", 32):   Row("__nv_cbrtf",   1,  (49, 46),   (17, 16)),
    ("cbrt", 64):   Row("__nv_cbrt",    1,  (55, 51),   (50, 49)),
    ("erf", 32):    Row("__nv_erff",    2,  (56, 56),   (26, 26)),
    ("erf", 64):    Row("__nv_erf",     2,  (74, 71),   (91, 55)),
    ("erfc", 32):   Row("__nv_erfcf",   4,  (51, 48),   (71, 54)),
    ("erfc", 64):   Row("__nv_erfc",    5,  (164, 161), (144, 104)),
    ("pow", 32):    Row("__nv_powf",    4,  (114, 103), (127, 102)),
    ("pow", 64):    Row("__nv_pow",     2,  (245, 226), (272, 227)),
    ("hypot", 64):  Row("__nv_hypot",   2,  (39, 39),   (41, 32)),
}
# fmt: on

# Our approximate forms that are shorter on a GPU too. The others take a cold path when a lane is
# odd, which a GPU pays for with registers and a branch: there the exact form is the shorter one.
SHORTER_APPROXIMATE = frozenset({"asin", "acos", "atan", "tanh"})


def exact(op: str, bits: int) -> str | None:
    """The function that replaces our form of `op`, or None."""
    return _within(op, bits, BOUND)


def approximate(op: str, bits: int) -> str | None:
    """The function that replaces our form of `op` where 4 units in the last place are allowed."""
    return _within(op, bits, APPROXIMATE_BOUND)


def _within(op: str, bits: int, bound: float) -> str | None:
    row = ROWS.get((op, bits))
    return row.name if row is not None and row.ulp <= bound and _shorter(row) else None


def _shorter(row: Row) -> bool:
    """Shorter for both architectures, and by an eighth for the newer: a tie keeps a CPU's bits."""
    older, newer = zip(row.ours, row.theirs, strict=True)
    return older[1] < older[0] and newer[1] * 8 <= newer[0] * 7
