"""SVG charts for documents: bars of candidates, and curves of growth. Nothing is loaded."""

from __future__ import annotations

from html import escape
from math import log10

WIDTH, LEFT, RIGHT, ROW, TOP = 720, 150, 90, 24, 40
STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#3a3a3a}.t{font-weight:600}"
    ".b{fill:#8a857a}.m{fill:#1d5fa8}.g{stroke:#d9d5cb}.l{fill:none;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#e9e7e2}.m{fill:#7fb5f0}.g{stroke:#33373f}}"
    "</style>"
)
COLOURS = ("#1d5fa8", "#8a5a00", "#1b6e3c", "#8446c0", "#b3261e", "#777e8b")


def bar_chart(title: str, bars: dict[str, float]) -> str:
    """Return horizontal bars on a logarithmic scale, shortest first; memdb's are coloured."""
    listed = sorted(bars.items(), key=lambda bar: bar[1])
    low = log10(max(listed[0][1], 1e-6)) - 0.3
    span = max(log10(max(listed[-1][1], 1e-6)) - low, 0.1)
    room = WIDTH - LEFT - RIGHT
    parts = _head(title, TOP + ROW * len(listed) + 10)
    for place, (name, value) in enumerate(listed):
        y = TOP + ROW * place
        length = max(2.0, (log10(max(value, 1e-6)) - low) / span * room)
        kind = "m" if name.startswith("memdb") else "b"
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{y + 3}" width="{length:.1f}" height="16"/>',
            f'<text x="{LEFT + length + 6:.1f}" y="{y + 15}">{value:.3g}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def line_chart(title: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    """Return curves of (rows, value) points, both scales logarithmic."""
    points = [point for line in lines.values() for point in line]
    scales = []
    for axis, (start, size) in enumerate(((LEFT, WIDTH - LEFT - RIGHT), (TOP + 200, -200))):
        logs = [log10(max(point[axis], 1e-9)) for point in points]
        low, span = min(logs), max(max(logs) - min(logs), 0.1)
        scales.append((low, span, start, size))

    def at(axis: int, value: float) -> float:
        low, span, start, size = scales[axis]
        return start + (log10(max(value, 1e-9)) - low) / span * size

    parts = _head(title, TOP + 240)
    for rows in sorted({point[0] for point in points}):
        x = at(0, rows)
        parts.append(f'<path class="g" d="M{x:.1f} {TOP}V{TOP + 200}"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP + 220}" text-anchor="middle">{rows:,.0f}</text>')
    for (name, line), colour in zip(lines.items(), COLOURS, strict=False):
        path = " ".join(f"{at(0, x):.1f},{at(1, y):.1f}" for x, y in line)
        parts.append(f'<polyline class="l" stroke="{colour}" points="{path}"/>')
        x, y = at(0, line[-1][0]), at(1, line[-1][1])
        label = f"{escape(name)} {line[-1][1]:.3g}"
        parts.append(f'<text x="{x - 4:.1f}" y="{y - 6:.1f}" text-anchor="end">{label}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _head(title: str, height: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>{STYLE}",
        f'<text class="t" x="10" y="22">{escape(title)}</text>',
    ]
