"""Charts as SVG, by the standard library: panels with linear or logarithmic axes, lines, points with labels, one legend.

They follow the reader's light or dark scheme by CSS inside the file, which browsers apply to images too.
"""
import html
import math

# One colour a series, for light and for dark grounds; told apart by dash and marker too.
COLOURS = [("#1f6fd0", "#6cb0ff"), ("#d1570a", "#ff9d57"), ("#0d8a5f", "#4cd3a0"), ("#8a4fd0", "#c39bff"), ("#c2304b", "#ff8096"),
           ("#6a7280", "#a6aeb8"), ("#8a6a00", "#e0bc4a"), ("#0b8793", "#5ad2de")]
DASHES = ["", "", "", "7 4", "2 3", "9 3 2 3", "4 3", "1 3"]
FONT = 13


def style():
    def rules(which, ground, ink, muted, grid):
        out = [f".ground{{fill:{ground}}}", f"text{{fill:{ink}}}", f".muted{{fill:{muted}}}",
               f".grid{{stroke:{grid}}}", f".axis{{stroke:{muted}}}", f".roof{{stroke:{muted}}}", f".halo{{stroke:{ground}}}"]
        for i, pair in enumerate(COLOURS):
            out += [f".l{i}{{stroke:{pair[which]}}}", f".f{i}{{fill:{pair[which]}}}"]
        return "".join(out)
    return ("<style>text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:%dpx}" % FONT
            + ".line{fill:none;stroke-width:2;stroke-linejoin:round}.grid,.axis{stroke-width:1}.roof{stroke-width:1.5;fill:none}"
            + ".halo{stroke-width:3;stroke-linejoin:round;paint-order:stroke}.title{font-size:17px;font-weight:600}.panel{font-weight:600}"
            + rules(0, "#ffffff", "#1f2328", "#59636e", "#e4e7eb")
            + "@media(prefers-color-scheme:dark){" + rules(1, "#0d1117", "#e6edf3", "#9aa4af", "#2b3139") + "}</style>")


def width_of(text, size=FONT):
    return sum(0.33 if c in "ijl.,:;'| ()t" else 0.92 if c in "mwMW@" else 0.68 if c.isupper() else 0.57 for c in text) * size


def number(value):
    if value == 0:
        return "0"
    if value >= 1e5 or value < 1e-3:
        power = math.floor(math.log10(value))
        lead = round(value / 10**power, 2)
        digits = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(c)] if c.isdigit() else "⁻" for c in str(power))
        return ("" if lead == 1 else f"{lead:g}·") + "10" + digits
    return f"{value:,.10g}"


class Axis:
    """`ticks`: {value: text}, or None for powers of ten (and 2 and 5 between them where there is room)."""

    def __init__(self, label, low, high, log=True, ticks=None):
        self.label, self.low, self.high, self.log = label, low, high, log
        self.ticks = ticks or (self.decades() if log else self.steps())

    def decades(self):
        out = {}
        few = math.log10(self.high / self.low) < 2.7
        for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for lead in (1, 2, 5) if few else (1,):
                value = lead * 10.0**power
                if self.low * 0.999 <= value <= self.high * 1.001:
                    out[value] = number(value)
        return out

    def steps(self):
        raw = (self.high - self.low) / 5
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(size * m for m in (1, 2, 5, 10) if size * m >= raw)
        first = math.ceil(self.low / step)
        return {k * step: number(round(k * step, 10)) for k in range(first, math.floor(self.high / step) + 1)}

    def at(self, value):
        """0 to 1 along the axis."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def span(values, log=True, pad=1.25):
    """Limits that hold all values."""
    values = [v for v in values if v and v > 0]
    if log:
        low, high = min(values) / pad, max(values) * pad
        if high / low < 8:  # not a magnified nothing
            middle = math.sqrt(low * high)
            low, high = middle / 3, middle * 3
        return low, high
    return 0, max(values) * 1.08


class Panel:
    def __init__(self, title, x, y):
        self.title, self.x, self.y = title, x, y
        self.lines, self.points, self.roofs = [], [], []

    def line(self, series, xs, ys):
        """`series`: index into the figure's names."""
        pairs = [(x, y) for x, y in zip(xs, ys) if y]
        if pairs:
            self.lines.append((series, pairs))

    def point(self, series, x, y, label):
        self.points.append((series, x, y, label))

    def roof(self, pairs, label):
        """A limit between two (x, y), with its name along it."""
        self.roofs.append((pairs, label))

    def draw(self, left, top, width, height):
        out = []
        px = lambda v: left + self.x.at(v) * width
        py = lambda v: top + height - self.y.at(v) * height
        out.append(f'<text x="{left}" y="{top - 12}" class="panel">{html.escape(self.title)}</text>')
        for value, text in self.y.ticks.items():
            y = py(value)
            out.append(f'<line x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
                       f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end" class="muted">{text}</text>')
        after = -1e9
        for value, text in self.x.ticks.items():
            x, w = px(value), width_of(text)
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + height}" class="grid"/>')
            if x - w / 2 > after + 4:
                out.append(f'<text x="{x:.1f}" y="{top + height + 19}" text-anchor="middle" class="muted">{text}</text>')
                after = x + w / 2
        out.append(f'<path d="M{left},{top}V{top + height}H{left + width}" fill="none" class="axis"/>')
        out.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">{html.escape(self.x.label)}</text>')
        middle = top + height / 2
        out.append(f'<text transform="translate({left - 50},{middle}) rotate(-90)" text-anchor="middle">{html.escape(self.y.label)}</text>')
        spots = [(series, px(x), py(y), label) for series, x, y, label in self.points]
        taken = [(x - 5, y - 5, x + 5, y + 5) for _, x, y, _ in spots]
        for pairs, _ in self.roofs:  # no text crosses a roof
            (x0, y0), (x1, y1) = ((px(x), py(y)) for x, y in (pairs[0], pairs[-1]))
            steps = max(2, int(math.hypot(x1 - x0, y1 - y0) / 6))
            taken += [(x0 + (x1 - x0) * k / steps - 2, y0 + (y1 - y0) * k / steps - 2, x0 + (x1 - x0) * k / steps + 2, y0 + (y1 - y0) * k / steps + 2)
                      for k in range(steps + 1)]
            path = "M" + "L".join(f"{px(x):.1f},{py(y):.1f}" for x, y in pairs)
            out.append(f'<path d="{path}" class="roof" stroke-dasharray="5 4"/>')
        for pairs, label in self.roofs:
            (x0, y0), (x1, y1) = ((px(x), py(y)) for x, y in (pairs[0], pairs[-1]))
            w = width_of(label, 12)
            if y0 == y1:  # above or below the line, where it is free
                places = [(x, y) for y in (y0 - 6, y0 + 15) for x in (x1 - w - 4, x0 + 8, (x0 + x1 - w) / 2)] + [(x1 - w - 4, y0 - 24)]
                boxes = [(x, y - 11, x + w, y + 3) for x, y in places]
                box = next((b for b in boxes if not any(overlap(b, t) for t in taken)), boxes[0])
                out.append(f'<text x="{box[0]:.1f}" y="{box[3] - 3:.1f}" class="muted halo" style="font-size:12px">{html.escape(label)}</text>')
                taken.append(box)
            else:  # on the slope, near its lower end, on the upper side
                angle = math.atan2(y1 - y0, x1 - x0)
                sx, sy = x0 + (x1 - x0) * 0.06, y0 + (y1 - y0) * 0.06
                out.append(f'<text transform="translate({sx:.1f},{sy:.1f}) rotate({math.degrees(angle):.1f})" dy="-7" class="muted halo" style="font-size:12px">'
                           f"{html.escape(label)}</text>")
                for k in range(int(w / 10) + 2):
                    tx, ty = sx + k * 10 * math.cos(angle), sy + k * 10 * math.sin(angle)
                    taken.append((tx - 12, ty - 20, tx + 8, ty - 2))
        for series, pairs in self.lines:
            path = "M" + "L".join(f"{px(x):.1f},{py(y):.1f}" for x, y in pairs)
            out.append(f'<path d="{path}" class="line l{series % len(COLOURS)}" stroke-dasharray="{DASHES[series % len(DASHES)]}"/>')
            out += [marker(series, px(x), py(y)) for x, y in pairs]
        for series, x, y, label in sorted(spots, key=lambda s: (s[2], s[1])):
            out.append(marker(series, x, y))
            placed = place_label(label, x, y, taken, (left, top, left + width, top + height))
            if placed:
                (bx, by, anchor), box = placed
                taken.append(box)
                nearest = (min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3]))
                if math.hypot(nearest[0] - x, nearest[1] - y) > 12:
                    out.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{nearest[0]:.1f}" y2="{nearest[1]:.1f}" class="axis" stroke-opacity="0.6"/>')
                out.append(f'<text x="{bx:.1f}" y="{by:.1f}" text-anchor="{anchor}" class="halo" style="font-size:11.5px">{html.escape(label)}</text>')
        return "\n".join(out)


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def place_label(label, x, y, taken, bounds):
    """The nearest free place around a point: (x, baseline, anchor) and its box."""
    w, h = width_of(label, 11.5), 13
    for far in (0, 9, 20, 34, 50, 68):
        for dx, dy, anchor in [(9 + far, 4, "start"), (-9 - far, 4, "end"), (0, -9 - far, "middle"), (0, 17 + far, "middle"),
                               (8 + far / 2, -7 - far, "start"), (8 + far / 2, 14 + far, "start"), (-8 - far / 2, -7 - far, "end"),
                               (-8 - far / 2, 14 + far, "end")]:
            tx, ty = x + dx, y + dy
            start = tx - (w if anchor == "end" else w / 2 if anchor == "middle" else 0)
            box = (start - 3, ty - h + 2, start + w + 3, ty + 3)
            inside = box[0] >= bounds[0] + 2 and box[2] <= bounds[2] and box[1] >= bounds[1] and box[3] <= bounds[3] - 2
            if inside and not any(overlap(box, t) for t in taken):
                return (tx, ty, anchor), box
    return None


def marker(series, x, y):
    colour = series % len(COLOURS)
    shape = series % 4
    if shape == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="f{colour}"/>'
    if shape == 1:
        return f'<rect x="{x - 3.8:.1f}" y="{y - 3.8:.1f}" width="7.6" height="7.6" class="f{colour}"/>'
    if shape == 2:
        return f'<path d="M{x:.1f},{y - 5:.1f}l5,9h-10z" class="f{colour}"/>'
    return f'<path d="M{x:.1f},{y - 5:.1f}l5,5l-5,5l-5,-5z" class="f{colour}"/>'


def figure(title, subtitle, names, panels, columns=2, panel_size=(400, 300)):
    """`names`: {series index: text} of the legend. SVG text."""
    width_panel, height_panel = panel_size
    gap_x, gap_y, left, right = 76, 92, 70, 24
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width = left + columns * width_panel + (columns - 1) * gap_x + right
    legend, x, line = [], left - 40, 0
    for series, text in names.items():
        need = 34 + width_of(text) + 18
        if x + need > width - right:
            x, line = left - 40, line + 1
        y = 82 + 22 * line
        colour = series % len(COLOURS)
        legend.append(f'<path d="M{x},{y - 4}h26" class="line l{colour}" stroke-dasharray="{DASHES[series % len(DASHES)]}"/>'
                      + marker(series, x + 13, y - 4) + f'<text x="{x + 33}" y="{y}">{html.escape(text)}</text>')
        x += need
    top = 82 + 22 * line + 46
    height = top + rows * height_panel + (rows - 1) * gap_y + 58
    body = ['<rect width="100%" height="100%" class="ground"/>', f'<text x="{left - 40}" y="32" class="title">{html.escape(title)}</text>',
            f'<text x="{left - 40}" y="54" class="muted">{html.escape(subtitle)}</text>', *legend]
    for i, panel in enumerate(panels):
        body.append(panel.draw(left + (i % columns) * (width_panel + gap_x), top + (i // columns) * (height_panel + gap_y), width_panel, height_panel))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
            f"<title>{html.escape(title)}</title>{style()}\n" + "\n".join(body) + "\n</svg>\n")
