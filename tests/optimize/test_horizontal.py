"""Horizontal fusion: independent kernels under one launch, with the bits of each by itself."""

import itertools
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.backend import emulator
from fjit.testing import check


def adam(params: Any, grads: Any, means: Any, squares: Any) -> Any:
    out = {}
    for k in params:
        mean = 0.9 * means[k] + 0.1 * grads[k]
        square = 0.999 * squares[k] + 0.001 * grads[k] ** 2
        out[k] = (params[k] - 1e-3 * mean / (np.sqrt(square) + 1e-8), mean, square)
    return out


def trees(sizes: list[int], dtypes: tuple[str, ...] = ("f8",)) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(len(sizes))
    kinds = list(itertools.islice(itertools.cycle(dtypes), len(sizes)))
    return [
        {f"p{k}": rng.random(n).astype(kinds[k]) for k, n in enumerate(sizes)} for _ in range(4)
    ]


def assert_equal_trees(got: Any, want: Any) -> None:
    assert got.keys() == want.keys()
    for key in want:
        for g, w in zip(got[key], want[key], strict=True):
            np.testing.assert_array_equal(g, w)
            assert g.dtype == w.dtype


@pytest.mark.parametrize("count", [2, 7, 60, 200])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_an_optimiser_step_is_one_launch(count: int, threads: int) -> None:
    sizes = [int(n) for n in np.geomspace(10, 30_000, count)]
    arguments = trees(sizes, ("f8", "f4"))
    fused = fjit.fuse(adam, threads=threads)
    assert len(fused.explain(*arguments, compile=False).kernels) == 1
    for _ in range(3):
        assert_equal_trees(fused(*arguments), adam(*arguments))


def test_one_machine_code_serves_all_sizes() -> None:
    fused = fjit.fuse(adam, cache=False)
    fused(*trees([10, 3000, 40_000, 7, 500]))
    assert fused.cache_info().compiles <= 3  # by how rows are cut, not by sizes
    before = fused.cache_info().compiles
    fused(*trees([11, 3100, 41_000, 17, 501]))
    fused(*trees([12, 3200, 42_000, 27, 502]))
    assert fused.cache_info().compiles == before


def test_the_report_shows_one_kernel() -> None:
    arguments = trees([100, 2000, 35])
    report = fjit.fuse(adam).explain(*arguments)
    (kernel,) = report.kernels
    assert kernel.members == 3
    assert kernel.iteration_space == (2135,)
    assert kernel.bytes_read == 4 * 8 * 2135
    assert kernel.bytes_written == 3 * 8 * 2135
    assert kernel.actual_registers is not None
    assert kernel.actual_registers > 0
    (taken,) = [d for d in report.decisions if "one launch" in d.reason]
    assert taken.numbers["kernels"] == 3
    assert "and_2_more" in str(report)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (2, 3)])
def test_members_of_odd_shapes(shape: tuple[int, ...]) -> None:
    x, y = np.ones(shape), np.arange(500.0)

    def function(x: Any, y: Any) -> Any:
        return np.exp(x) + 1, np.sin(y) * 2, (y * 3).sum(), np.asarray(x).T - 1

    check(function, x, y)


def test_members_with_several_phases_filters_and_scans() -> None:
    rng = np.random.default_rng(2)
    x, y, z = rng.standard_normal(70_000), rng.standard_normal((300, 200)), rng.standard_normal(50)

    def function(x: Any, y: Any, z: Any) -> Any:
        return x.sum(), y.std(axis=0), z[z > 0], np.cumsum(z * 2), np.sort(z), x[x > 1].sum()

    check(function, x, y, z)
    for threads in (1, 2, 3):
        fused = fjit.fuse(function, threads=threads)
        assert any(len(batch) > 1 for batch in fused.lower(x, y, z).plan.batches)
        for got, want in zip(
            fused(x, y, z), fjit.fuse(function, fusion="none")(x, y, z), strict=True
        ):
            np.testing.assert_array_equal(got, want)


def test_arguments_written_over_are_not_read_by_others_at_once() -> None:
    def function(x: Any, y: Any) -> Any:
        before = np.sin(x).sum()
        x += 1
        other = np.exp(y[:300]) * 2
        y *= 3
        return before, other

    x, y = np.arange(2000.0), np.linspace(0, 1, 900)
    assert fjit.fuse(function).lower(x, y).plan.batches
    want_x, want_y = x.copy(), y.copy()
    want = function(want_x, want_y)
    for _ in range(3):
        got_x, got_y = x.copy(), y.copy()
        got = fjit.fuse(function)(got_x, got_y)
        np.testing.assert_array_equal(got_x, want_x)
        np.testing.assert_array_equal(got_y, want_y)
        np.testing.assert_allclose(got[0], want[0])
        np.testing.assert_allclose(got[1], want[1])


def test_temporaries_of_members_do_not_share_memory() -> None:
    def function(xs: Any) -> Any:
        kept = [fjit.barrier(np.exp(x)) for x in xs]
        again = [fjit.barrier(k * 2 + k.sum()) for k in kept]
        return [a + k for a, k in zip(again, kept, strict=True)]

    xs = [np.linspace(0, 1, n) for n in (3000, 10, 50_000, 700, 701)]
    fused = fjit.fuse(function, threads=3)
    want = fjit.fuse(function, fusion="none", threads=1)(xs)
    for _ in range(5):
        for got, expected in zip(fused(xs), want, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_what_depends_on_each_other_runs_in_turn() -> None:
    def function(x: Any, y: Any, z: Any) -> Any:
        low = fjit.barrier(x.min())
        return y - low, np.exp(z)

    plan = fjit.fuse(function).lower(np.ones(100), np.ones(70), np.ones(30)).plan
    assert plan.batches
    place = {eqn: k for k, eqn in enumerate(plan.program.eqns)}
    for batch in plan.batches:
        made = {v for eqn in batch for v in eqn.outputs}
        assert not any(a in made for eqn in batch for a in eqn.inputs)
        assert [place[eqn] for eqn in batch] == list(range(place[batch[0]], place[batch[-1]] + 1))


@pytest.mark.nvvm
def test_a_gpu_runs_each_kernel_by_itself_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = []
    inner = emulator.launch

    def launch(*args: Any, **more: Any) -> None:
        launches.append(args[1])
        inner(*args, **more)

    monkeypatch.setattr(emulator, "launch", launch)
    arguments = trees([100, 200, 300])
    fused = fjit.fuse(adam, target="cuda-emulator")
    assert_equal_trees(fused(*arguments), fjit.fuse(adam)(*arguments))
    assert len(fused.explain(*arguments, compile=False).kernels) == len(launches) == 3


def test_long_kernels_gain_nothing() -> None:
    x, y = np.ones(3_000_000), np.ones(2_900_000)
    report = fjit.fuse(lambda x, y: (x * 2, y * 2)).explain(x, y, compile=False)
    assert len(report.kernels) == 2
    assert any("longer than 2 launches" in d.reason for d in report.decisions)
    assert len(fjit.fuse(lambda x, y: (x * 2, y * 2), fusion="max").explain(x, y).kernels) == 1


def test_the_users_function_is_asked_for_each_member() -> None:
    arguments = trees([100, 200, 300])
    pairs = []

    def never(candidate: Any) -> bool:
        pairs.append(candidate)
        return "one launch" not in candidate.reason

    report = fjit.fuse(adam, fusion=never).explain(*arguments, compile=False)
    assert len(report.kernels) == 3
    assert sum("one launch" in c.reason for c in pairs) == 2
    assert len(fjit.fuse(adam, fusion="none").lower(*arguments).plan.batches) == 0
