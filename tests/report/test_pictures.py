"""Pictures of reports: well-formed, self-contained, no box over another, every operation there."""

import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import fjit
from fjit.errors import FjitValueError, MissingPackageError
from fjit.report.graph import LINE, Graph
from fjit.report.report import Report

X = np.random.default_rng(1).standard_normal((64, 80))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def several(x: Any) -> Any:
    return fjit.barrier(np.exp(x)) * 2, np.sort(x * 2, axis=1) + 1, (x - x.mean(0)) / x.std(0)


def many(x: Any) -> Any:
    values = [x, x + 1]
    for k in range(120):
        values.append(values[-1] * values[-2] + values[(7 * k) % len(values)])
    return values[-1]


def step(tensors: Any) -> Any:
    return [np.sqrt(t * t + 1) for t in tensors]


REPORTS: dict[str, Report] = {
    "softmax": fjit.fuse(softmax).explain(X, compile=False),
    "several": fjit.fuse(several).explain(X, compile=False),
    "many": fjit.fuse(many).explain(X, compile=False),
    "step": fjit.fuse(step).explain([X[k, : 3 * k] for k in range(20)], compile=False),
    "gpu": fjit.fuse(softmax, target="cuda:sm_90").explain(X, compile=False),
}


def graph_of(name: str) -> Graph:
    graph = REPORTS[name].graph
    assert graph is not None
    return graph


@pytest.mark.parametrize("name", REPORTS)
def test_pictures_are_well_formed_and_load_nothing(name: str, tmp_path: Path) -> None:
    for picture in REPORTS[name].pictures():
        ET.fromstring(picture.svg)
        assert picture.caption
    path = tmp_path / "report.html"
    REPORTS[name].save(path)
    page = path.read_text(encoding="utf-8")
    addresses = re.findall(r"https?://[^\s\"'<]+", page)
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert "<script" not in page and "src=" not in page


@pytest.mark.parametrize("name", REPORTS)
def test_no_box_lies_over_another(name: str) -> None:
    graph = graph_of(name)
    boxes = [(b.x, b.y, b.x + b.width, b.y + LINE) for b in graph.boxes]
    regions = [(r.x, r.y, r.x + r.width, r.y + r.height) for r in graph.regions]
    for rectangles in (boxes, regions):
        for k, a in enumerate(rectangles):
            for b in rectangles[:k]:
                assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    for box, (left, top, right, bottom) in zip(graph.boxes, boxes, strict=True):
        x0, y0, x1, y1 = regions[box.region]
        assert x0 <= left and y0 <= top and right <= x1 and bottom <= y1
    assert max(x for _, _, x, _ in regions) <= graph.width
    assert max(y for _, _, _, y in regions) <= graph.height


@pytest.mark.parametrize("name", ["softmax", "several", "many"])
def test_every_kernel_and_operation_is_drawn(name: str) -> None:
    report, graph = REPORTS[name], graph_of(name)
    shown = [r.label.split(" and ")[0] for r in graph.regions if r.is_kernel]
    assert len(shown) == len(report.kernels)
    assert sum(r.is_kernel for r in graph.regions) + len(report.calls) == len(graph.regions)
    operations = sum(len(k.operations) for k in report.kernels if k.members == 1)
    assert len(graph.boxes) >= operations
    assert all(0 <= e.source < len(graph.boxes) and e.source != e.target for e in graph.edges)


def test_a_batch_is_drawn_once() -> None:
    (region,) = graph_of("step").regions
    assert region.label.endswith(" more")
    assert len(graph_of("step").boxes) < 10


def test_hovering_tells_lines_and_lives() -> None:
    titles = [box.title for box in graph_of("softmax").boxes]
    assert all("test_pictures.py" in title for title in titles)
    assert any("last read by step" in title for title in titles)
    assert any("a result" in title for title in titles)
    (region,) = graph_of("softmax").regions
    assert "loops 64 x 80" in region.title and "registers" in region.title


def test_registers_and_roofline_have_pictures() -> None:
    captions = [picture.caption for picture in REPORTS["many"].pictures()]
    assert [c.split(" ")[0] for c in captions] == ["Dataflow:", "Roofline:", "Registers"]
    assert len(REPORTS["gpu"].pictures()) == 1
    (kernel,) = REPORTS["many"].kernels
    assert max(live for _, live in kernel.curve) == kernel.predicted_registers


def test_measured_points_are_filled() -> None:
    report = fjit.fuse(softmax).explain(X, measure=True)
    roofline = report.pictures()[1].svg
    assert "measured" in roofline and "estimated" in roofline
    assert "measured" not in REPORTS["softmax"].pictures()[1].svg


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        with fjit.scope("<script>alert(1)</script>&\"'"):
            return np.exp(x).sum()

    function.__qualname__ = "<img src=x>"
    report = fjit.fuse(function).explain(X, compile=False)
    report.save(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8") + report._repr_html_()
    assert "<script>" not in page and "<img" not in page
    for picture in report.pictures():
        ET.fromstring(picture.svg)


def test_a_notebook_shows_the_dataflow() -> None:
    assert "<svg" in REPORTS["softmax"]._repr_html_()


# Figures of matplotlib


def test_a_figure_has_bars_and_points() -> None:
    pytest.importorskip("matplotlib", reason="the extra viz is not installed")
    made = fjit.fuse(several).explain(X, measure=True).figure()
    bars, roof = made.axes
    assert len(bars.patches) == 2 * len(bars.get_yticklabels())
    assert roof.get_xscale() == roof.get_yscale() == "log"


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match=r"fjit\[viz\]"):
        REPORTS["softmax"].figure()


# Scopes


def test_scopes_nest_and_name_operations() -> None:
    @fjit.scope("helper")
    def helper(x: Any) -> Any:
        return x * 3

    def function(x: Any) -> Any:
        with fjit.scope("outer"):
            y = np.exp(x)
            with fjit.scope("inner"):
                y = y + 1
            y = y - 2
        return np.tanh(helper(y))

    fused = fjit.fuse(function)
    np.testing.assert_allclose(fused(X), function(X), rtol=1e-12)
    (kernel,) = fused.explain(X, compile=False).kernels
    assert set(kernel.scopes) == {"outer", "outer/inner", "helper"}
    lines = dict(kernel.operations)
    named = {words.split(" ")[0]: source for words, source in lines.items()}
    assert named["exp"].endswith("[outer]") and named["add"].endswith("[outer/inner]")
    assert not named["tanh"].endswith("]")
    assert "[outer/inner]" in fused.explain(X, compile=False)._repr_html_()


def test_scopes_change_neither_code_nor_plans() -> None:
    def scoped(x: Any) -> Any:
        with fjit.scope("a"):
            return np.tanh(x) * 2

    plain = fjit.fuse(lambda x: np.tanh(x) * 2).lower(X)
    assert [str(n) for n in fjit.fuse(scoped).lower(X).nests] == [str(n) for n in plain.nests]


def test_a_scope_ends_with_an_error() -> None:
    def function(x: Any) -> Any:
        try:
            with fjit.scope("broken"):
                raise KeyError("a")
        except KeyError:
            return x + 1

    (kernel,) = fjit.fuse(function).explain(X, compile=False).kernels
    assert kernel.scopes == ()


@pytest.mark.parametrize("bad", ["", "  ", None, 3])
def test_bad_names_of_scopes_are_refused(bad: Any) -> None:
    with pytest.raises(FjitValueError, match="scope takes a name"):
        fjit.scope(bad)


def test_outside_of_a_trace_a_scope_does_nothing() -> None:
    with fjit.scope("a"):
        assert np.exp(0.0) == 1.0
