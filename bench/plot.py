"""A line plot as SVG, by hand: two small pictures are not worth a dependency."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 64, 16, 40, 52
COLOURS = ("#1b6ca8", "#c8553d", "#588b3a", "#8a5fa8")


def nice_step(span):
    """A step of 1, 2 or 5 times a power of ten, about five to the span."""
    rough = span / 5 or 1
    power = 10 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough)


def text(x, y, words, anchor="middle", size=12, extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {extra}>{words}</text>'


def line_plot(title, x_label, y_label, ticks, series):
    """ticks: the x values in order, evenly spaced, as texts. series: name -> one y (or None) for each tick."""
    top = max(y for ys in series.values() for y in ys if y is not None) or 1
    step = nice_step(top)
    limit = step * math.ceil(top / step)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_of(i):
        return LEFT + wide * (i + 0.5) / len(ticks)

    def y_of(value):
        return TOP + high * (1 - value / limit)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', text(WIDTH / 2, 20, title, size=14)]
    for k in range(round(limit / step) + 1):
        y = y_of(k * step)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>' + text(LEFT - 6, y + 4, f"{k * step:g}", "end"))
    for i, tick in enumerate(ticks):
        parts.append(text(x_of(i), HEIGHT - BOTTOM + 18, tick))
    for (name, ys), colour in zip(series.items(), COLOURS):
        points = [(x_of(i), y_of(y)) for i, y in enumerate(ys) if y is not None]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="'
                     + " ".join(f"{x:.1f},{y:.1f}" for x, y in points) + '"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    for k, (name, colour) in enumerate(zip(series, COLOURS)):
        parts.append(text(LEFT + 10, TOP + 16 + 16 * k, name, "start", extra=f'fill="{colour}"'))
    parts.append(text(LEFT + wide / 2, HEIGHT - 10, x_label))
    parts.append(text(16, TOP + high / 2, y_label, extra=f'transform="rotate(-90 16 {TOP + high / 2:.0f})"'))
    return "\n".join(parts + ["</svg>"]) + "\n"
