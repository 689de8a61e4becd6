"""The pictures: what they show is inside of them, whatever the numbers are."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest

from catalog_ext.page import charts

FIRST = datetime(2024, 2, 28, 23, 59, 59, 999_000)


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


@pytest.mark.parametrize("span", [
    timedelta(milliseconds=1), timedelta(seconds=1), timedelta(seconds=18), timedelta(minutes=7), timedelta(hours=30),
    timedelta(days=3), timedelta(days=40), timedelta(days=400), timedelta(days=20_000),
])  # fmt: skip
@pytest.mark.parametrize("greatest", [0, 1, 999, 2**20, 7 * 10**15])
def test_a_line_goes_from_end_to_end(span: timedelta, greatest: int) -> None:
    points = [(FIRST, 0.0), (FIRST + span / 2, float(greatest)), (FIRST + span, greatest / 3)]
    drawn = charts.line("Size over time", points, of_bytes=True)
    (path,) = re.findall(r'<path [^>]*d="([^"]+)"', drawn)
    xs, ys = numbers(path)[::2], numbers(path)[1::2]
    assert xs[0] == 0
    assert xs[1] == pytest.approx(xs[2] / 2)
    assert 200 < xs[2] < 380
    assert all(0 <= y <= 220 for y in ys)
    below = re.findall(r'<g class="axis bottom">(.*?)</g></g>', drawn)[0]
    labels = {float(x): label for x, label in re.findall(r'<text x="([-\d.]+)"[^>]*>([^<]*)<', below)}
    assert (min(labels), max(labels), len(labels)) == (0, pytest.approx(xs[2]), 4)
    assert labels[0].startswith(("02-28", "2024-02", "23:59:59"))
    beside = re.findall(r'<g class="axis left">(.*?)</g></g>', drawn)[0]
    said = re.findall(r">([^<>]+)</text>", beside)
    assert len(said) == len(set(said)) > 1


@pytest.mark.parametrize("values", [[0.0], [1.0], [3.0, 0.0, 99_999.0], [float(n) for n in range(70)]])
def test_columns_stand_beside_each_other(values: list[float]) -> None:
    drawn = charts.columns("Files", [charts.Bar(f"c{n % 3}", n, f"said {i}") for i, n in enumerate(values)])
    columns = re.findall(r'<rect x="([-\d.]+)" y="([-\d.]+)" width="([-\d.]+)" height="([-\d.]+)"[^>]*><title>', drawn)
    assert len(columns) == len(values)
    xs = [float(column[0]) for column in columns]
    assert xs == sorted(set(xs))
    assert all(0 <= float(x) <= 480 and 0 <= float(height) <= 220 for x, _, _, height in columns)
