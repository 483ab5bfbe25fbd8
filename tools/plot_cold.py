#!/usr/bin/env python3
"""The course of cold starts: a table of speed over plain decoding by quarter, and a drawing of it, from what
`swiftlet bench cold --json` said.

    for dtype in f16 q8_0 q4_k; do
        swiftlet bench cold -m synth:tinyllama-1.1b,dtype=$dtype,plant=0.45 --json > $dtype.json
    done
    tools/plot_cold.py f16.json q8_0.json q4_k.json -o cold.svg
"""
import argparse, json, math, sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 960, 340, 48, 40, 320, 40
COLORS = ["#1b6ca8", "#e07a1f", "#17a398", "#b23a48", "#6a4c93", "#8ab17d"]


def name_of(run):
    return run["model"].removeprefix("synth:")


def points(run):
    """(tokens at the middle of a stretch, speed over plain in it)"""
    at = 0
    for stretch in run["course"]:
        if stretch["speedup"] is not None:
            yield at + stretch["tokens"] / 2, stretch["speedup"]
        at += stretch["tokens"]


def table(runs):
    def cell(value):
        return "" if value is None else "%.2f" % value

    lines = ["| model | first quarter | second | third | last | all | unseen matchness | its copy joined at token |", "| --- " * 8 + "|"]
    for run in runs:
        joined = run["copy_joined_after"]
        cells = [cell(quarter["speedup"]) for quarter in run["quarters"]] + [cell(run["speedup"]), cell(run.get("matchness"))]
        lines.append("| `%s` | %s | %s |" % (name_of(run), " | ".join(cells), "never" if joined is None else "%d" % joined))
    return "\n".join(lines)


def drawing(runs):
    most = max([1.5] + [speed for run in runs for _, speed in points(run)])
    most = math.ceil(4 * most) / 4
    tokens = max(run["tokens"] for run in runs)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(at):
        return LEFT + wide * at / tokens

    def y(speed):
        return TOP + high * (1 - speed / most)

    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="11">' % (WIDTH, HEIGHT, WIDTH, HEIGHT),
        '<rect width="%d" height="%d" fill="#fff"/>' % (WIDTH, HEIGHT),
        '<text x="%d" y="22" font-size="14">Speed over plain decoding from a cold start, defaults; in all beside the name</text>' % LEFT,
    ]
    for k in range(int(4 * most) + 1):
        speed = k / 4
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s"/>' % (LEFT, LEFT + wide, y(speed), y(speed), "#000" if k == 4 else "#ddd"))
        out.append('<text x="%d" y="%.1f" text-anchor="end">%.2f</text>' % (LEFT - 6, y(speed) + 4, speed))
    for k in range(6):
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%d</text>' % (x(tokens * k / 5), TOP + high + 16, tokens * k // 5))
    out.append('<text x="%.1f" y="%d" text-anchor="middle">tokens</text>' % (LEFT + wide / 2, HEIGHT - 8))
    for i, run in enumerate(runs):
        color = COLORS[i % len(COLORS)]
        line = " ".join("%.1f,%.1f" % (x(at), y(speed)) for at, speed in points(run))
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (line, color))
        legend = TOP + 14 + 18 * i
        out.append('<rect x="%d" y="%d" width="10" height="10" fill="%s"/>' % (LEFT + wide + 12, legend - 9, color))
        out.append('<text x="%d" y="%d">%s: %.2f</text>' % (LEFT + wide + 28, legend, escape(name_of(run)), run["speedup"]))
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN.json", help="what bench cold --json printed")
    parser.add_argument("-o", metavar="FILE.svg", help="where the drawing goes (none without)")
    arguments = parser.parse_args()
    runs = []
    for path in arguments.runs:
        try:
            with open(path) as f:
                run = json.load(f)
            list(points(run)), name_of(run), run["quarters"], run["speedup"] + 0, run["tokens"] + 0, run["copy_joined_after"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
            sys.exit("%s: not what `swiftlet bench cold --json` prints (%s)" % (path, problem))
        runs.append(run)
    print(table(runs))
    if arguments.o:
        with open(arguments.o, "w") as f:
            f.write(drawing(runs))


main()
