"""A drawing as SVG, complete in itself: no script, no font, no other program, readable on light and on dark."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

from noetl.language.drawing import layout
from noetl.language.drawing.drawing import Drawing
from noetl.language.drawing.layout import lay_out

_MARGIN, _TOP = 28.0, 74.0
_CORNER = 9.0

_STYLE = """
  text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Helvetica, Arial, sans-serif;
         fill: #1e293b; }
  .back { fill: #ffffff; }
  .title { font-size: 18px; font-weight: 650; }
  .sub, .kind, .what { font-size: 11px; fill: #64748b; }
  .name { font-size: 14px; font-weight: 650; }
  .task { font-size: 12px; }
  .box { fill: #f8fafc; stroke: #94a3b8; stroke-width: 1.2; }
  .start { fill: #eff6ff; stroke: #3b82f6; }
  .wait { fill: #fffbeb; stroke: #d97706; }
  .end { fill: #f0fdf4; stroke: #16a34a; }
  .unknown { stroke-dasharray: 5 4; }
  .rule { stroke: #cbd5e1; stroke-width: 1; }
  .pill { fill: #e2e8f0; }
  .word { font-size: 9.5px; font-weight: 650; fill: #475569; }
  .way { fill: none; stroke: #64748b; stroke-width: 1.5; }
  .tip { fill: #64748b; }
  .failure { stroke: #c2410c; stroke-dasharray: 6 4; }
  .tip-failure { fill: #c2410c; }
  .computed { stroke-dasharray: 2 4; }
  .label { font-size: 11px; fill: #475569; }
  .label-failure { fill: #c2410c; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e2e8f0; }
    .back { fill: #0f172a; }
    .sub, .kind, .what { fill: #94a3b8; }
    .box { fill: #1e293b; stroke: #64748b; }
    .start { fill: #172554; stroke: #60a5fa; }
    .wait { fill: #2d220c; stroke: #f59e0b; }
    .end { fill: #052e16; stroke: #4ade80; }
    .rule { stroke: #475569; }
    .pill { fill: #334155; }
    .word { fill: #cbd5e1; }
    .way { stroke: #94a3b8; }
    .tip { fill: #94a3b8; }
    .failure { stroke: #fb923c; }
    .tip-failure { fill: #fb923c; }
    .label { fill: #cbd5e1; }
    .label-failure { fill: #fb923c; }
  }
"""


def svg(drawing: Drawing) -> str:
    """The picture."""
    plan = lay_out(drawing)
    heading = max(layout.text_width(drawing.title, 18, bold=True), layout.text_width(drawing.subtitle, 11))
    reach = plan.right - plan.left
    width, height = max(reach, heading) + 2 * _MARGIN, plan.bottom + _TOP + _MARGIN
    # A title may be wider than the net, which is then centred below it.
    shift = _MARGIN - plan.left + max(0.0, heading - reach) / 2
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{_safe(drawing.title)}">',
        f"<title>{_safe(drawing.title)}</title>",
        f"<style>{_STYLE}</style>",
        '<rect class="back" width="100%" height="100%"/>',
        _text("title", _MARGIN, 34, drawing.title),
        _text("sub", _MARGIN, 52, drawing.subtitle),
        f'<g transform="translate({shift:.1f} {_TOP})">',
        *_svg_elements(plan),
        "</g>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _svg_elements(plan: layout.DrawingLayout) -> list[str]:
    """Ways below, then boxes, then labels, so that no line runs over a text."""
    ways = [_arc_path(way) for way in plan.ways]
    boxes = [_box(box) for box in plan.boxes]
    labels = [_label(way) for way in plan.ways if way.label is not None]
    return [*ways, *boxes, *labels]


def _box(placed: layout.PlacedBox) -> str:
    box = placed.box
    radius = placed.height / 2 if placed.height <= layout.HEAD else 10
    outline = f'width="{placed.width:.1f}" height="{placed.height:.1f}" rx="{radius:.0f}"'
    parts = [
        f'<g transform="translate({placed.x:.1f} {placed.y:.1f})">',
        f'<rect class="box {box.role}" {outline}/>',
        _text("name", placed.width / 2, layout.HEAD / 2 + layout.TITLE / 2 - 2, box.name, "middle"),
        *_inside(placed),
        "</g>",
    ]
    return "".join(parts)


def _inside(placed: layout.PlacedBox) -> list[str]:
    parts, y = [], layout.HEAD + 10.0
    right = placed.width - layout.PADDING
    for mark in placed.box.marks:
        pill = layout.pill_width(mark)
        parts.append(
            f'<rect class="pill" x="{layout.PADDING}" y="{y - 11:.1f}" width="{pill:.1f}" height="15" rx="7.5"/>'
        )
        parts.append(_text("word", layout.PADDING + pill / 2, y, mark.word, "middle"))
        parts.append(_text("what", layout.PADDING + pill + 6, y + 0.5, mark.text))
        y += layout.ROW
    if placed.box.marks and placed.box.lines:
        parts.append(f'<line class="rule" x1="{layout.PADDING}" x2="{right:.1f}" y1="{y - 9:.1f}" y2="{y - 9:.1f}"/>')
        y += 6
    for line in placed.box.lines:
        parts.append(_text("task", layout.PADDING + layout.INDENT * line.depth, y, line.name))
        parts.append(_text("kind", right, y, line.note, "end"))
        y += layout.ROW
    return parts


def _text(kind: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    placed = f'x="{x:.1f}" y="{y:.1f}"' + (f' text-anchor="{anchor}"' if anchor != "start" else "")
    return f'<text class="{kind}" {placed}>{_safe(text)}</text>'


def _arc_path(placed: layout.PlacedWay) -> str:
    points = placed.points
    path = _rounded_path(points) if placed.back else _curved(points)
    manner = placed.way.manner
    return f'<path class="way {manner}" d="{path}"/>{_tip(points, placed.back, str(manner))}'


def _curved(points: tuple[layout.Point, ...]) -> str:
    path = [f"M{points[0].x:.1f} {points[0].y:.1f}"]
    for index in range(1, len(points)):
        last, point = points[index - 1], points[index]
        # The last point is there twice, so that points come in pairs (`_Plan._forward`).
        if index == len(points) - 1:
            break
        if index % 2 or last.x == point.x:
            path.append(f"L{point.x:.1f} {point.y:.1f}")
        else:
            middle = (last.y + point.y) / 2
            path.append(f"C{last.x:.1f} {middle:.1f} {point.x:.1f} {middle:.1f} {point.x:.1f} {point.y:.1f}")
    return " ".join(path)


def _rounded_path(points: tuple[layout.Point, ...]) -> str:
    path = [f"M{points[0].x:.1f} {points[0].y:.1f}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        enter, leave = _towards(corner, before), _towards(corner, after)
        path.append(f"L{enter.x:.1f} {enter.y:.1f} Q{corner.x:.1f} {corner.y:.1f} {leave.x:.1f} {leave.y:.1f}")
    path.append(f"L{points[-1].x:.1f} {points[-1].y:.1f}")
    return " ".join(path)


def _towards(corner: layout.Point, other: layout.Point) -> layout.Point:
    """A little way from a corner towards the next point; lines are level or upright."""
    dx, dy = other.x - corner.x, other.y - corner.y
    # Never zero: two points may be the same.
    far = max(abs(dx), abs(dy), 0.001)
    part = min(_CORNER, far / 2) / far
    return layout.Point(corner.x + dx * part, corner.y + dy * part)


def _tip(points: tuple[layout.Point, ...], back: bool, manner: str) -> str:
    """The arrow's head, in the direction of the last piece."""
    end = points[-1]
    before = next((point for point in reversed(points) if point != end), end)
    kind = "tip tip-failure" if manner == "failure" else "tip"
    if back and before.y == end.y:
        way = 9 if before.x > end.x else -9
        corners = f"{end.x:.1f},{end.y:.1f} {end.x + way:.1f},{end.y - 4.5:.1f} {end.x + way:.1f},{end.y + 4.5:.1f}"
    else:
        corners = f"{end.x:.1f},{end.y:.1f} {end.x - 4.5:.1f},{end.y - 9:.1f} {end.x + 4.5:.1f},{end.y - 9:.1f}"
    return f'<polygon class="{kind}" points="{corners}"/>'


def _label(placed: layout.PlacedWay) -> str:
    assert placed.label is not None
    width = layout.label_width(placed.way.label)
    x, y = placed.label.x, placed.label.y
    kind = "label label-failure" if placed.way.manner == "failure" else "label"
    ground = f'<rect class="back" x="{x - width / 2:.1f}" y="{y - 9:.1f}" width="{width:.1f}" height="18" rx="4"/>'
    tooltip = f"<title>{_safe(placed.way.guard)}</title>" if placed.way.guard != placed.way.label else ""
    return f"<g>{tooltip}{ground}{_text(kind, x, y + 4, placed.way.label, 'middle')}</g>"


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _safe(text: str) -> str:
    """Text for XML: escaped, and without what no XML document may hold."""
    return escape(_NOT_XML.sub("\ufffd", text), {'"': "&quot;"})
