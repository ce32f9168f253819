"""The benchmarks run, and compare like with like."""

import numpy as np
import pytest

from azchess.runs import bench_search
from azchess.runs.bench_peers import Found
from azchess.runs.bench_rules import bench_rules
from azchess.runs.bench_selfplay import bench_selfplay


@pytest.mark.slow
def test_the_rules_are_faster_than_pgx():
    table = bench_rules(batches=(1024,), env_batch=1024)
    names, batches, _, ratios, _ = (list(map(str, column.cells)) for column in table.columns)
    assert names[:3] == ["azchess rules", "azchess Chess.step", "pgx"]
    assert batches[:3] == ["1,024"] * 3
    assert float(ratios[0]) > 15
    assert float(ratios[1]) > 5
    assert ratios[2] == "1.0"


@pytest.mark.slow
def test_self_play_is_faster_than_the_way_of_pgx():
    table = bench_selfplay(games=4, simulations=4)
    sides, ratios = (list(map(str, table.columns[index].cells)) for index in (1, 2))
    compared = [ratio for side, ratio in zip(sides, ratios, strict=True) if "/" in side]
    assert len(compared) == 2
    assert all(float(ratio.split()[0]) > 1 for ratio in compared)


@pytest.mark.slow
def test_search_is_faster_than_mctx_and_keeps_within_its_memory():
    rows = bench_search.puct_rows(games=128, simulations=128)
    bars = {row.side: row for row in rows if row.least is not None}
    assert len(bars) == 4
    assert all(row.met for row in bars.values()), bars
    bounded = [row for row in rows + bench_search.chess_memory_rows(1024, 800) if row.most]
    assert len(bounded) == 4
    assert all(row.met for row in bounded), bounded


@pytest.mark.slow
def test_gumbel_search_is_faster_than_mctx_over_the_labels_of_chess():
    rows = bench_search.gumbel_rows(games=16, simulations=16)
    (few, many) = (row.value for row in rows if row.least is not None)
    assert few > 1
    assert many > 50


def test_sides_that_search_differently_are_found_out():
    visits = np.arange(40).reshape(20, 2)
    bench_search.check_alike({"a": Found(visits=visits), "b": Found(visits=visits)})
    other = visits + (np.arange(20) < 3)[:, None]
    with pytest.raises(RuntimeError, match="a and b search differently: the visits of 85%"):
        bench_search.check_alike({"a": Found(visits=visits), "b": Found(visits=other)})


@pytest.mark.fast
def test_a_bar_is_met_from_its_own_side():
    def row(value, **bar):
        return bench_search.Row("what", "side", value, "times", **bar)

    assert [row(3.0).met, row(3.0, least=3).met, row(2.9, least=3).met] == [True, True, False]
    assert [row(2.0, most=2).met, row(2.1, most=2).met] == [True, False]
