"""The benchmarks run, and compare like with like."""

import pytest

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
