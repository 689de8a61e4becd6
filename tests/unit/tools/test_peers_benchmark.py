"""The parts of the comparison with peers that start no process: the table, the answers, the figures and the page."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks.measure import Outcome
from tests.benchmarks.peers import comparing, curves, page, table
from tests.benchmarks.peers.contender import NoSuchThingError, Task, measure_all
from tests.benchmarks.peers.figures import MEASURES, Answers, Comparison, Figure
from tests.benchmarks.peers.processes import Limits, failure

if TYPE_CHECKING:
    from pathlib import Path

DAY = "2026-11-23, load 1.5"


def figure(
    contender: str, seconds: float | None, *, partitions: int = 1_000, measure: str = "count", reason: str = ""
) -> Figure:
    return Figure(contender, measure, partitions, seconds, 7 if seconds else 0, reason, DAY)


def compared(*figures: Figure) -> Comparison:
    return Comparison().merged(figures, {"hive": "Spark 4.3.0, Hive catalog"})


def test_partitions_count_through_hours_regions_and_days() -> None:
    assert table.Partition(0).name == "ds=2017-01-01/region=r00/hour=0"
    assert table.Partition(287).name == "ds=2017-01-01/region=r11/hour=23"
    assert table.Partition(288).name == "ds=2017-01-02/region=r00/hour=0"
    assert table.Partition(25).condition == "ds = DATE '2017-01-01' AND region = 'r01' AND hour = 1"
    assert table.Partition(25).spec == "ds = DATE '2017-01-01', region = 'r01', hour = 1"


@pytest.mark.parametrize(
    ("partitions", "end", "count"),
    [
        (100, "2017-01-02", 100),
        (1_000, "2017-01-02", 288),
        (100_000, "2017-02-04", 34 * 288),
        (1_051_200, "2018-01-01", table.YEAR),
        (3_000_000, "2018-01-01", table.YEAR),
    ],
)
def test_a_year_is_a_tenth_of_a_table_of_less_than_ten(partitions: int, end: str, count: int) -> None:
    condition, expected = table.Layout(partitions).year
    assert condition == f"ds >= DATE '2017-01-01' AND ds < DATE '{end}'"
    assert expected == count


def test_the_tree_is_built_and_restored(tmp_path: Path) -> None:
    seed = tmp_path / "seed.parquet"
    seed.write_bytes(b"seed")
    layout = table.Layout(50)
    table.build(tmp_path / "t", seed, 50)
    built = sorted(tmp_path.glob("t/**/*"))
    assert len([path for path in built if path.is_file()]) == 50
    written = list(table.written_to(layout, 3))
    for partition in written:
        (tmp_path / "t" / partition.name / "part-1.parquet").touch()
        (tmp_path / "t" / partition.name / "._temporary").mkdir(exist_ok=True)
    (tmp_path / "t" / "_delta_log").mkdir()
    (tmp_path / "t" / "_delta_log" / "0.json").touch()
    (tmp_path / "t" / "_SUCCESS").touch()
    table.restore(tmp_path / "t", written)
    assert sorted(tmp_path.glob("t/**/*")) == built


def test_the_last_day_is_the_greatest() -> None:
    assert table.Layout(1_000).last_day == date(2017, 1, 4)
    assert table.Layout(288).last_day == date(2017, 1, 1)


def test_answers_become_medians_of_the_warm_runs() -> None:
    answers = Answers("hive", 1_000, DAY)
    answers.take('{"version": "Hive 2.3"}')
    answers.take('{"measure": "count", "begun": true}')
    assert answers.under_way == "count"
    for seconds, warm in ((9.0, "false"), (3.0, "true"), (1.0, "true"), (2.0, "true")):
        answers.take(f'{{"measure": "count", "seconds": {seconds}, "warm": {warm}}}')
    answers.take('{"measure": "count", "ended": true}')
    answers.take('{"measure": "commit", "begun": true}')
    answers.take('{"measure": "commit", "reason": "it has no commits"}')
    assert answers.under_way == ""
    assert answers.version == "Hive 2.3"
    assert answers.added_to(Comparison()).versions == {"hive": "Hive 2.3"}
    assert answers.figures == [
        Figure("hive", "count", 1_000, 2.0, 3, "", DAY),
        Figure("hive", "commit", 1_000, None, 0, "it has no commits", DAY),
    ]


def test_a_measure_that_is_given_up_has_a_reason_and_the_others_are_left() -> None:
    answers = Answers("hive", 1_000, DAY)
    answers.take('{"measure": "count", "begun": true}')
    answers.take('{"measure": "count", "seconds": 1.0, "warm": true}')
    answers.give_up("count", "longer than 2 min")
    assert answers.figures == [Figure("hive", "count", 1_000, None, 0, "longer than 2 min", DAY)]
    assert answers.left_of(["count", "max"]) == ("max",)


def test_a_line_that_is_no_answer_is_refused() -> None:
    with pytest.raises(AssertionError, match="hive printed"):
        Answers("hive", 1_000, DAY).take('{"what": 1}')


class _Fake:
    """Gives the answers that the test has set, and records its commits."""

    version = "fake"

    def __init__(self, layout: table.Layout, **wrong: object) -> None:
        self._layout = layout
        self._wrong = wrong
        self._commits: list[table.Partition] = []

    def first(self) -> None: ...

    def rows(self) -> None:
        raise NoSuchThingError("it reads no footers")

    def plan(self, condition: str) -> int | None:
        if not condition:
            return self._layout.partitions
        return 1 if "region" in condition else self._layout.year[1]

    def value(self, expression: str, condition: str = "") -> object:
        if expression in self._wrong:
            return self._wrong[expression]
        if condition:
            return 1 + sum(partition.condition == condition for partition in self._commits)
        return self._layout.last_day if expression == "max(ds)" else self._layout.partitions

    def unchanged(self) -> None: ...

    def commit(self, partition: table.Partition) -> None:
        if "commit" not in self._wrong:
            self._commits.append(partition)

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _warm_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.benchmarks.peers.contender.WARM_SECONDS", 0)


def measured_with(tmp_path: Path, **wrong: object) -> Answers:
    layout = table.Layout(1_000)
    answers = Answers("hive", layout.partitions, DAY)
    task = Task("hive", tmp_path, tmp_path, layout.partitions, tuple(MEASURES), {})
    measure_all(task, _Fake(layout, **wrong), lambda answer: answers.take(json.dumps(answer)))
    return answers


def test_a_contender_is_measured_in_every_respect(tmp_path: Path) -> None:
    figures = {figure.measure: figure for figure in measured_with(tmp_path).figures}
    assert list(figures) == list(MEASURES)
    assert [name for name, figure in figures.items() if figure.seconds is None] == ["rows"]
    assert (figures["first"].runs, figures["count"].runs) == (1, 7)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"count(*)": 999}, r"count: count\(\*\) is 999, expected 1000"),
        ({"max(ds)": date(2017, 1, 3)}, r"max: max\(ds\) is datetime.date\(2017, 1, 3\)"),
        ({"commit": None}, "commit: 1 rows in ds="),
    ],
)
def test_a_wrong_answer_is_no_figure(tmp_path: Path, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        measured_with(tmp_path, **wrong)


def test_ratios_are_above_one_where_the_peer_is_slower() -> None:
    comparison = compared(figure("catalog-ext", 0.1), figure("hive", 1.5), figure("delta", 0.025))
    assert page.cell(comparison, comparison.of("catalog-ext", "count", 1_000)) == "100.0 ms"
    assert page.cell(comparison, comparison.of("hive", "count", 1_000)) == "1.50 s (15 times)"
    assert page.cell(comparison, comparison.of("delta", "count", 1_000)) == "25.0 ms (0.25 times)"
    assert page.cell(comparison, comparison.of("iceberg", "count", 1_000)) == "not measured"
    assert [(each.contender, ratio) for each, ratio in comparison.ahead("count")] == [("delta", 0.25)]


def test_without_our_figure_there_is_no_ratio() -> None:
    comparison = compared(figure("catalog-ext", None, reason="longer than 2 min"), figure("hive", 1.5))
    assert page.cell(comparison, comparison.of("hive", "count", 1_000)) == "1.50 s"
    assert comparison.ahead("count") == []


def test_newer_figures_take_the_place_of_older_ones(tmp_path: Path) -> None:
    comparison = compared(figure("hive", 1.5), figure("hive", 2.5, partitions=100_000)).merged(
        [figure("hive", 1.0)], {"hive": "Spark 4.4.0"}
    )
    assert [each.seconds for each in comparison.figures] == [1.0, 2.5]
    comparison.save(tmp_path / "docs" / "peers.json")
    assert Comparison.load(tmp_path / "docs" / "peers.json") == comparison
    assert Comparison.load(tmp_path / "none.json") == Comparison()


def test_the_section_says_who_is_ahead_and_who_has_no_figure_and_why() -> None:
    comparison = compared(
        figure("catalog-ext", 0.1), figure("hive", None, reason="longer than 2 min"), figure("delta", 0.05),
        figure("duckdb", 0.02),
    )  # fmt: skip
    section = page.section(comparison, "2 cores")
    assert "| Spark's Hive catalog | — |" in section
    assert "- Spark's Hive catalog has no figure for 1,000 partitions: longer than 2 min." in section
    assert "- **Delta is faster than catalog-ext**, with 0.5 times its time at 1,000 partitions: Spark's own" in section
    assert "- Spark 4.3.0, Hive catalog\n" in section
    assert "load average when a contender began 1.5 to 1.5" in section
    assert "![" not in section, "one size is no curve"
    assert "Provisional" not in section


def test_a_section_that_was_measured_beside_other_work_says_so() -> None:
    comparison = compared(Figure("hive", "count", 1_000, 1.0, 7, "", "2026-11-23, load 6.5"))
    assert "load average when a contender began 6.5 to 6.5. **Provisional**" in page.section(comparison, "2 cores")


def test_contender_ahead_without_a_known_reason_is_reported() -> None:
    section = page.section(compared(figure("catalog-ext", 1.0), figure("hive", 0.5)), "2 cores")
    faster = "- **Spark's Hive catalog is faster than catalog-ext**, with 0.5 times its time at 1,000 partitions"
    assert f"{faster}: {page.NOT_KNOWN}." in section


def test_every_reason_is_of_a_known_measure_and_peer() -> None:
    assert set(page.HOW) == set(MEASURES)
    for measure, contender in page.WHY:
        assert measure in MEASURES
        assert contender in page.CONTENDERS


def test_the_section_goes_before_the_notes_and_later_into_its_own_place() -> None:
    notes = "## Where the time goes"
    section = page.section(compared(figure("catalog-ext", 0.1)), "2 cores")
    placed = page.placed(f"# Benchmarks\n\n{notes}\n\n- people\n", section, notes)
    assert placed == f"# Benchmarks\n\n{section}\n{notes}\n\n- people\n"
    newer = page.section(compared(figure("catalog-ext", 0.2)), "2 cores")
    assert page.placed(placed, newer, notes) == placed.replace("100.0 ms", "200.0 ms")
    assert page.parted(placed) == ("# Benchmarks\n\n", section, f"\n{notes}\n\n- people\n")
    assert page.placed("# Benchmarks\n", section, notes) == f"# Benchmarks\n\n{section}"


@pytest.mark.slow
def test_the_curves_are_the_same_for_the_same_figures(tmp_path: Path) -> None:
    comparison = compared(
        figure("catalog-ext", 0.1), figure("catalog-ext", 0.12, partitions=100_000), figure("hive", 0.4),
        figure("hive", 40.0, partitions=100_000), figure("delta", None, reason="longer than 2 min"),
    )  # fmt: skip
    assert page.has_curve(comparison, "count")
    assert not page.has_curve(comparison, "max")
    for name in ("one.svg", "two.svg"):
        curves.draw(comparison, "count", "count(*)", tmp_path / name)
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert drawn == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert ">Spark's Hive catalog</text>" in drawn
    assert ">100,000</text>" in drawn
    assert "Delta" not in drawn
    assert "2026" not in drawn


def test_a_page_with_curves_links_to_them(tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.md"
    file.write_text("# Benchmarks\n", encoding="utf-8")
    comparison = compared(figure("catalog-ext", 0.1), figure("catalog-ext", 0.2, partitions=100_000))
    comparing.write_page(comparison, "2 cores", file, "## Notes")
    text = file.read_text(encoding="utf-8")
    assert "](benchmarks/peers-count.svg)" in text
    assert "from 1,000 to 100,000 partitions catalog-ext 2 times" in text
    assert (tmp_path / "benchmarks" / "peers-count.svg").is_file()


@pytest.mark.parametrize(("seconds", "shown"), [(0.001, "1 ms"), (0.1, "100 ms"), (10.0, "10 s")])
def test_the_axis_has_units(seconds: float, shown: str) -> None:
    assert curves.duration(seconds) == shown


def test_limits_are_of_the_start_of_what_is_done_once_and_of_runs() -> None:
    limits = Limits(setup=300, run=40)
    assert (limits.of("first"), limits.of("rows"), limits.of("count")) == (300, 300, 40)
    assert limits.of("") == 600


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Traceback\njava.lang.OutOfMemoryError: Java heap space\n\tat a.b\n", "OutOfMemoryError: Java heap space"),
        ("py4j.protocol.Py4JNetworkError\n", "Py4JNetworkError"),
        ("java.lang.OutOfMemoryError: x\nAssertionError: count: count(*) is 1, expected 2\n", None),
        ("killed\n", None),
    ],
)
def test_error_is_a_reason_and_a_wrong_result_is_not(said: str, reason: str | None) -> None:
    assert failure(said) == reason


@pytest.fixture
def own_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page and the figures of the benchmarks, in a folder of the test."""
    monkeypatch.setattr(benchmarks, "PAGE", tmp_path / "benchmarks.md")
    monkeypatch.setattr(benchmarks, "FIGURES", tmp_path / "figures.json")
    return tmp_path / "benchmarks.md"


def test_the_other_benchmarks_keep_the_section_and_the_notes(own_page: Path) -> None:
    section = page.section(compared(figure("catalog-ext", 0.1)), "2 cores")
    notes = f"{benchmarks.NOTES}\n\n- people\n"
    own_page.write_text(f"# Benchmarks\n\n## Older\n\n{section}\n{notes}", encoding="utf-8")
    benchmarks._keep({"scan": Outcome("Newer", "How.", ["a", "b"], [["1", "2"]])}, "2 cores")
    written = own_page.read_text(encoding="utf-8")
    assert written.endswith(f"| 1 | 2 |\n\n{section}\n{notes}")
    assert "Older" not in written


def test_one_benchmark_renews_its_own_section_alone(own_page: Path) -> None:
    first = {
        "planning": Outcome("Planning", "How.", ["a", "b"], [["1", "2"]], [("plan", True, "1 ms")]),
        "scan": Outcome("Scanning", "How.", ["a", "b"], [["3", "4"]], [("scan", False, "+8 %")]),
    }
    benchmarks._keep(first, "an older machine")
    benchmarks._keep(
        {"scan": Outcome("Scanning", "How.", ["a", "b"], [["5", "6"]], [("scan", True, "+2 %")])}, "a new one"
    )
    written = own_page.read_text(encoding="utf-8")
    assert "| plan | reached | 1 ms |\n| scan | reached | +2 % |" in written
    assert written.index("an older machine") < written.index("| 1 | 2 |") < written.index("a new one")
    assert "| 5 | 6 |" in written
    assert "| 3 | 4 |" not in written
