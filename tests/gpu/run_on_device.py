"""Run fjit on a real GPU: the same numbers as NumPy, then how fast; one table, under 5 minutes.

    python tests/gpu/run_on_device.py [--size 256] [--only softmax] [--device 0]

Exits with 0 if all is as it should be, 1 if a result is wrong, 2 if there is no device. Speeds are
shown beside what memory can do (a copy on the device, measured first) and beside torch.compile if
PyTorch is installed; being slow is no failure.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import fjit
from fjit.errors import DriverError, FjitIndexError
from fjit.runtime.devices import Device, device
from tests.corpus import CORPUS

MIB = 1 << 20
LIMIT_S = 150.0
"""Seconds after which no further random program starts."""
RANDOM = 200
GROUPS, CALLS = 5, 20
RTOL = {"f2": 2e-3, "f4": 3e-6, "f8": 1e-13}

RNG = np.random.default_rng(11)
X = RNG.standard_normal((67, 130))
Y = RNG.standard_normal((67, 130))
N = RNG.integers(-100, 100, (67, 130))
M = np.where(N % 7 == 0, 3, N % 7)
BOOLS = X > 0


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layernorm(x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


FLOATS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x, y: np.where(x > y, x * 2 - y, y / (x * x + 1)),
    "functions": lambda x, y: np.exp(-x * x) + np.tanh(y) * np.sin(x) + np.log1p(np.abs(y)),
    "arithmetic": lambda x, y: ((x * y + x) / (y - 3), np.sqrt(np.abs(x)), -x * 0.0),
    "to integers": lambda x, y: ((x * 100).astype("i4") // 7 % 5, (y > 0) & (x < 0)),
    "broadcast": lambda x, y: x[:, :1] + y[:1],
    "views": lambda x, y: x.T[::-1, 1:-1] * 2 + y.T[:, :-2],
    "concatenate": lambda x, y: np.concatenate([x, y * 2], axis=1) + 1,
    "pad": lambda x, y: np.pad(x, 1) * 2,
    "stencil": lambda x, y: x[1:-1, 1:-1] + x[:-2, 1:-1] - y[2:, 2:],
    "sum": lambda x, y: (x * y).sum(),
    "rows": lambda x, y: ((x * y).sum(1), x.max(1), y.argmin(1)),
    "columns": lambda x, y: (x.sum(0), y.mean(0)),
    "softmax": lambda x, y: softmax(x),
    "layernorm": lambda x, y: layernorm(x) * y,
    "filter": lambda x, y: x[x > y] * 2,
    "filtered sum": lambda x, y: x[x > 0].sum(),
    "cumsum": lambda x, y: x.cumsum(1),
    "several": lambda x, y: (x + y, np.exp(x).sum(0), (y * 2).ravel()[::3]),
    "empty": lambda x, y: (x[:0] + 1, x[:0].sum(1)),
    "one number": lambda x, y: x[0, 0] * y.sum() + 3,
    "sort between": lambda x, y: np.sort(x * 2, axis=1) + y,
    "product": lambda x, y: np.maximum(x @ y.T, 0),
}
INTEGERS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda n, m: (n // m, n % m, n * m - n, abs(n), n**2),
    "bits": lambda n, m: (n & m, n | m, n ^ m, ~n),
    "comparisons": lambda n, m: (n < m, np.minimum(n, m), np.maximum(n, m).max(0)),
    "sums": lambda n, m: (n.sum(), n.sum(0), n.cumsum(1), (n * m).min(1)),
    "filter": lambda n, m: n[n > m],
    "conversions": lambda n, m: (n.astype("f4") / 3, n.astype("u1"), n.astype("?")),
}
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda a: a.T,
    "backwards": lambda a: a[::-1, ::-1],
    "every third": lambda a: a[1::3, ::2],
    "repeated": lambda a: np.broadcast_to(a[:1], (5, 67, 130)),
    "one element": lambda a: a[2, 3, ...],
    "no element": lambda a: a[:, :0],
    "odd offset": lambda a: a.ravel()[1:],
    "swapped bytes": lambda a: a.astype(">f4"),
}


# ---- the same numbers ---------------------------------------------------------------------------
class Checks:
    """Comparisons with NumPy: how many, and which differed."""

    def __init__(self) -> None:
        self.count = 0
        self.failures: list[str] = []

    def check(self, name: str, f: Callable[..., Any], *arguments: Any, rtol: float = 0.0) -> None:
        """One program; see `check_made`."""
        self.check_made(name, f, lambda: arguments, rtol)

    def check_made(
        self, name: str, f: Callable[..., Any], make: Callable[[], tuple[Any, ...]], rtol: float
    ) -> None:
        """One program, with NumPy arrays and with arrays on the device; each twice, bit-equal.

        `make` gives fresh arguments, which have to be the same afterwards too.
        """
        self.count += 1
        try:
            with np.errstate(all="ignore"):
                want, there_want = _called(f, make()), _called(f, tuple(map(_native, make())))
            on_host = fjit.fuse(f, target="cuda")
            first = _called(on_host, make())
            _same(first, want, rtol)
            _same(_called(on_host, make()), first, 0.0)
            moved = [_moved(a) for a in make()]
            _same(_called(fjit.fuse(f), moved), there_want, rtol)
        except Exception:
            self.failures.append(f"{name}:\n{traceback.format_exc(limit=-3)}")


def _called(f: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, Any]:
    """The result of a call, and what the arguments are after it."""
    return f(*arguments), tuple(arguments)


def _moved(value: Any) -> Any:
    return fjit.cuda.from_numpy(value) if isinstance(value, np.ndarray) else value


def _native(value: Any) -> Any:
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        return value.astype(value.dtype.newbyteorder("="))
    return value


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in _leaves(part)]
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value.to_numpy() if isinstance(value, fjit.cuda.DeviceArray) else value]


def _same(got: Any, want: Any, rtol: float) -> None:
    pairs = zip(_leaves(got), _leaves(want), strict=True)
    for number, (a, b) in enumerate(pairs):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape, f"result {number}: {a.dtype}{a.shape}"
        if b.dtype.kind == "f" and rtol:
            scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale)
        else:
            np.testing.assert_array_equal(a, b)


def check_programs(checks: Checks) -> None:
    """The lists above, in every dtype, layout and size."""
    for dtype in ("f4", "f8"):
        for name, f in FLOATS.items():
            x, y = X.astype(dtype), Y.astype(dtype)
            checks.check(f"{name} {dtype}", f, x, y, rtol=RTOL[dtype])
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u4", "u8"):
        for name, f in INTEGERS.items():
            checks.check(f"{name} {dtype}", f, abs(N).astype(dtype), M.astype(dtype))
    checks.check("bools", lambda a, b: (a & b, a | ~b, a.sum(0), a.any(1), a.all(1)), BOOLS, N > 0)
    for name, layout in LAYOUTS.items():
        checks.check(f"layout {name}", lambda x: x * 2 + 1, layout(X.astype("f4")))
    for size in (1, 2, 31, 32, 33, 1023, 1024, 1025, 100_003):
        line = RNG.standard_normal(size)
        checks.check(f"sums of {size}", lambda x: (x.sum(), x.max(), x.argmax()), line, rtol=1e-13)
        checks.check(f"scan of {size}", lambda x: (x.cumsum(), x[x > 0]), line, rtol=1e-12)
        rows = RNG.standard_normal((3, size)).astype("f4")
        checks.check(f"rows of {size}", softmax, rows, rtol=RTOL["f4"])
    odd = np.array([1e-40, -1e-42, 0.0, -0.0, np.inf, -np.inf, np.nan], "f4")
    checks.check("odd values", lambda a: (a * 2, a + 0.0, a / 3, np.maximum(a, 1)), odd)


def check_products(checks: Checks) -> None:
    """Matrix products of every dtype and tile, in several layouts; long sums; a captured array."""
    rtol = {"f2": 5e-3, "f4": 3e-5, "f8": 1e-12}
    shapes = ((33, 17, 40), (129, 200, 65), (1500, 20, 1400), (40, 20_000, 30), (5, 1, 7))
    for dtype in ("f2", "f4", "f8", "i1", "i4", "u8", "?"):
        for m, k, n in shapes:
            x, w = (RNG.standard_normal(s).astype(dtype) for s in ((m, k), (k, n)))
            name = f"product {dtype} of {m}, {k}, {n}"
            checks.check(name, lambda x, w: x @ w, x, w, rtol=rtol.get(dtype, 0.0))
    x, w, b = (RNG.standard_normal(s) for s in ((7, 150, 200), (7, 150, 130), (130,)))
    stacked: dict[str, Callable[..., Any]] = {
        "transposed": lambda x, w: x.swapaxes(1, 2) @ w,
        "backwards": lambda x, w: x[:, ::-1, ::-1].swapaxes(1, 2) @ w[::-1, ::-1],
        "one for all": lambda x, w: x.swapaxes(1, 2) @ w[2],
        "a layer": lambda x, w: np.maximum(x.swapaxes(1, 2) @ w + b, 0).sum(1),
    }
    for name, f in stacked.items():
        checks.check(f"product {name}", f, x, w, rtol=1e-12)
    checks.count += 1
    weights, kept = fjit.cuda.from_numpy(w[0]), fjit.cuda.from_numpy(x[0].T.copy())
    got = fjit.fuse(lambda x: x @ weights)(kept)
    _same(got, x[0].T @ w[0], 1e-12)


def check_corpus(checks: Checks) -> None:
    """The programs that all of fjit's tests use."""
    for name, case in CORPUS.items():
        rtol = max(case.rtol, 1e-12)
        checks.check_made(f"corpus {name}", case.function, case.arguments, rtol)


def check_errors(checks: Checks) -> None:
    """An error of a value is raised, and the GPU is usable after it."""
    checks.count += 1
    f = fjit.fuse(lambda x, i: x[i], target="cuda")
    try:
        f(X, np.array([0, 67]))
        checks.failures.append("an index out of bounds was not noticed")
    except FjitIndexError:
        _same(f(X, np.array([0, 66])), X[[0, 66]], 0.0)


BINARY: Sequence[Callable[[Any, Any], Any]] = (
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, np.maximum, np.minimum,
    lambda a, b: np.where(a > b, a, -b), lambda a, b: a / (abs(b) + 1),
)  # fmt: skip
UNARY: Sequence[Callable[[Any], Any]] = (
    np.sqrt, np.abs, np.negative, np.floor, lambda a: a[::-1], lambda a: a.T.T,
    lambda a: a - a.max(1, keepdims=True), lambda a: a * a.mean(0),
)  # fmt: skip
ENDS: Sequence[Callable[[Any], Any]] = (
    lambda a: a, lambda a: a.sum(), lambda a: a.sum(0), lambda a: a.max(1), lambda a: a[a > 0],
    lambda a: a.cumsum(1), lambda a: (a.min(), a.T), lambda a: a.argmax(1),
)  # fmt: skip


def check_random(checks: Checks, count: int, until: float) -> int:
    """Chains of random operations; gives how many there was time for."""
    for number in range(count):
        if time.perf_counter() > until:
            return number
        rng = np.random.default_rng(number)
        steps = [int(k) for k in rng.integers(0, 1 << 30, int(rng.integers(2, 9)))]

        def program(x: Any, y: Any, steps: list[int] = steps) -> Any:
            for step in steps[:-1]:
                if step % 3:
                    x, y = BINARY[step % len(BINARY)](x, y), x
                else:
                    x = UNARY[step % len(UNARY)](x)
            return ENDS[steps[-1] % len(ENDS)](x)

        shape = (int(rng.integers(1, 70)), int(rng.integers(1, 300)))
        dtype = ("f4", "f8")[number % 2]
        x, y = (np.abs(rng.standard_normal(shape)).astype(dtype) for _ in range(2))
        checks.check(f"random {number}", program, x, y, rtol=10 * RTOL[dtype])
    return count


# ---- how fast -----------------------------------------------------------------------------------
class Case(NamedTuple):
    """A program, its arguments' shapes, bytes moved per element of the first, its PyTorch form."""

    function: Callable[..., Any]
    torch: Callable[..., Any]
    arrays: int
    bytes_moved: float
    flat: bool = False
    goal: float = 0.85


CASES: dict[str, Case] = {
    "elementwise": Case(
        lambda x, y: np.tanh(x) * y + 1, lambda x, y: x.tanh() * y + 1, 2, 12.0, goal=0.90
    ),
    "sum": Case(lambda x: x.sum(), lambda x: x.sum(), 1, 4.0),
    "row sums": Case(lambda x: x.sum(1), lambda x: x.sum(1), 1, 4.0),
    "column sums": Case(lambda x: x.sum(0), lambda x: x.sum(0), 1, 4.0),
    "softmax": Case(softmax, lambda x: x.softmax(1), 1, 8.0),
    "layernorm": Case(
        layernorm,
        lambda x: (x - x.mean(1, True)) / (x.var(1, False, keepdim=True) + 1e-5).sqrt(), 1, 8.0,
    ),
    "argmax": Case(lambda x: x.argmax(1), lambda x: x.argmax(1), 1, 4.0),
    "transpose": Case(lambda x: x.T + 1, lambda x: (x.T + 1).contiguous(), 1, 8.0, goal=0.80),
    "filter": Case(lambda x: x[x > 0] * 2, lambda x: x[x > 0] * 2, 1, 6.0, True, 0.80),
    "scan": Case(lambda x: x.cumsum(), lambda x: x.cumsum(0), 1, 8.0, True, 0.80),
}  # fmt: skip


def best_ms(gpu: Device, run: Callable[[], object]) -> float:
    """Milliseconds of a call between two events, of many in a row; the best of some groups."""
    driver = gpu.driver
    for _ in range(3):
        run()
    with gpu.active():
        start, stop = driver.event(), driver.event()
    best = float("inf")
    for _ in range(GROUPS):
        with gpu.active():
            driver.record(start, 0)
        for _ in range(CALLS):
            run()
        with gpu.active():
            driver.record(stop, 0)
            driver.wait(0)
            best = min(best, driver.elapsed(start, stop) / CALLS)
    return best


def copy_gbs(gpu: Device, nbytes: int) -> float:
    """Bytes read and written a nanosecond by a copy on the device."""
    source = gpu.upload(np.zeros(nbytes, np.uint8), 0)
    target = gpu.upload(np.zeros(nbytes, np.uint8), 0)

    def copy() -> None:
        with gpu.active():
            gpu.driver.copy(target.address, source.address, nbytes, 0)

    return 2 * nbytes / best_ms(gpu, copy) / 1e6


def torch_ms(case: Case, arrays: Sequence[Any], gpu: Device) -> float | None:
    """The time of torch.compile on the same data, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    tensors = [torch.from_numpy(a).to(f"cuda:{gpu.number}") for a in arrays]
    compiled = torch.compile(case.torch)
    return best_ms(gpu, lambda: compiled(*tensors))


def time_cases(gpu: Device, size: int, only: str, copy: float) -> list[tuple[str, ...]]:
    """A row of the table for each case; `size` is the bytes of each argument."""
    rows = []
    for name, case in CASES.items():
        if only not in name:
            continue
        count = size // 4
        shape = (count,) if case.flat else (max(count // 4096, 1), min(count, 4096))
        arrays = [RNG.standard_normal(shape, np.float32) for _ in range(case.arrays)]
        there = [fjit.cuda.from_numpy(a, device=gpu.number) for a in arrays]
        f = fjit.fuse(case.function)
        ms = best_ms(gpu, lambda f=f, there=there: f(*there))
        speed = case.bytes_moved * arrays[0].size / ms / 1e6
        peer = torch_ms(case, arrays, gpu)
        rows.append(
            (
                name, f"{1e3 * ms:.1f}", f"{speed:.0f}", f"{100 * speed / copy:.0f} %",
                f"{100 * case.goal:.0f} %", "-" if peer is None else f"{1e3 * peer:.1f}",
            )
        )  # fmt: skip
    return rows


def time_products(gpu: Device, largest: int, only: str) -> list[tuple[str, ...]]:
    """A row for each product of square matrices: microseconds, billions of operations a second."""
    rows = []
    for dtype in ("f4", "f8"):
        for size in (512, 2048, 8192):
            name = f"product {dtype} {size}"
            if only not in name or size > largest:
                continue
            values = [RNG.standard_normal((size, size), np.float32).astype(dtype) for _ in range(2)]
            x, y = (fjit.cuda.from_numpy(a, device=gpu.number) for a in values)
            f = fjit.fuse(lambda x, y: x @ y)
            ms = best_ms(gpu, lambda f=f, x=x, y=y: f(x, y))
            torch = Case(f, lambda x, y: x @ y, 2, 0.0)
            peer = torch_ms(torch, values, gpu)
            speed = 2 * size**3 / ms / 1e6
            rows.append((name, f"{1e3 * ms:.1f}", f"{speed:.0f}",
                         "-" if peer is None else f"{1e3 * peer:.1f}"))  # fmt: skip
    return rows


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows as text, the columns lined up."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([first.strip().ljust(widths[0]), *rest]))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, time, print; gives the exit code."""
    parser = argparse.ArgumentParser(description="fjit on a real GPU")
    parser.add_argument("--size", type=float, default=256, help="MiB of each argument timed")
    parser.add_argument("--only", default="", help="time the cases with this in their name")
    parser.add_argument("--product", type=int, default=8192, help="rows of the largest product")
    parser.add_argument("--random", type=int, default=RANDOM, help="how many random programs")
    parser.add_argument("--device", type=int, default=0)
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    try:
        gpu = device(options.device)
    except (DriverError, ImportError) as error:
        print(f"no device: {error}")
        return 2
    print(f"{gpu!r}, driver for CUDA {'.'.join(map(str, gpu.driver.version()))}")
    checks = Checks()
    check_programs(checks)
    check_products(checks)
    check_corpus(checks)
    check_errors(checks)
    drawn = check_random(checks, options.random, start + LIMIT_S)
    for failure in checks.failures:
        print(f"\nWRONG {failure}")
    took = time.perf_counter() - start
    wrong = len(checks.failures)
    print(f"\n{checks.count} programs ({drawn} random), {wrong} wrong, in {took:.0f} s\n")
    copy = copy_gbs(gpu, int(4 * options.size * MIB))
    head = ("case", "us", "GB/s", "of copy", "goal", "torch us")
    print(table([head, *time_cases(gpu, int(options.size * MIB), options.only, copy)]))
    products = time_products(gpu, options.product, options.only)
    print("\n" + table([("product", "us", "Gflop/s", "torch us"), *products]))
    print(f"\na copy on the device: {copy:.0f} GB/s; in all {time.perf_counter() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
