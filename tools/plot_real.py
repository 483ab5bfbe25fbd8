#!/usr/bin/env python3
"""Draws `swiftlet bench real … --json`: speed over plain decoding by kind of prompt, greedily, a row a model. Standard library.

    swiftlet bench real a.gguf b.gguf -i tools/chat.jsonl --json > real.json
    tools/plot_real.py real.json -o speed.svg"""
import argparse
import html
import json

WIDTH, LEFT, ROW, GAP, VALUE = 840, 190, 18, 26, 40  # pixels; VALUE: what a bar's figure takes
COLOURS = {"bar": "#3b7dd8", "less": "#c0504d", "line": "#888", "text": "#222"}


def bar(y, label, value, prompts, scale):
    colour = COLOURS["bar"] if value >= 1 else COLOURS["less"]
    x = LEFT + scale
    left, width = (x, (value - 1) * scale) if value >= 1 else (LEFT + value * scale, (1 - value) * scale)
    return [f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{html.escape(label)} ({prompts})</text>',
            f'<rect x="{left:.1f}" y="{y + 2}" width="{max(width, 1):.1f}" height="{ROW - 5}" fill="{colour}"/>',
            f'<text x="{max(x, left + width) + 6:.1f}" y="{y + 13}">{value:.2f}</text>']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    with open(args.file, encoding="utf-8") as file:
        runs = [run for run in json.load(file) if run["temperature"] == 0]
    fastest = max([2, *(by["over_plain"] for run in runs for by in run["by"] if by["prompts"] and by["over_plain"])])
    scale = (WIDTH - LEFT - VALUE) / fastest  # of a speed-up of 1
    out, y = [], 24
    for run in runs:
        plain = next(v for v in run["variants"] if v["name"] == "plain")
        out.append(f'<text x="8" y="{y}" font-weight="bold">{html.escape(run["model"])}, plain '
                   f'{plain["tokens_per_second"]:.1f} tokens/s</text>')
        top = y + 6
        y = top
        for by in run["by"]:
            if by["prompts"] and by["over_plain"]:
                out += bar(y, by["prompts_of"], by["over_plain"], by["prompts"], scale)
                y += ROW
        out.append(f'<line x1="{LEFT + scale}" x2="{LEFT + scale}" y1="{top}" y2="{y}" stroke="{COLOURS["line"]}"/>')
        y += GAP
    out.append(f'<text x="{LEFT + scale}" y="{y}" text-anchor="middle">1 = plain decoding; (prompts)</text>')
    with open(args.output, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 12}" font-family="sans-serif" '
                   f'font-size="12" fill="{COLOURS["text"]}">\n<rect width="100%" height="100%" fill="white"/>\n')
        file.write("\n".join(out) + "\n</svg>\n")


if __name__ == "__main__":
    main()
