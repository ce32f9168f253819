"""Gumbel searches against plain ones in float64, and the phase form against the sequential one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess.game import ChessGame
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import hash_game, subtraction
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.node import split_keys
from azchess.search.phases import PhaseGumbel
from search.gumbel_reference import gumbel
from search.reference import hashed_evaluator
from search.test_puct import wander

BATCH = 8
TOY = hash_game(12, legal=0.6, ends=0.05)


@functools.cache
def thought(search, game):
    """`(keys, positions, knobs) -> (Decision, Tree)`, compiled once."""
    evaluate = hashed_evaluator(game)

    def run(keys, positions, knobs):
        return search.think(game, evaluate, 1.0, keys, positions, knobs)

    return jax.jit(run)


def swept(simulations):
    """Knobs that differ from game to game, budgets among them."""
    budgets = np.linspace(1, simulations, BATCH).round()[[7, 3, 5, 0, 6, 2, 4, 1]]
    return SearchKnobs(
        budget=jnp.asarray(budgets, jnp.float32),
        discount=jnp.linspace(0.9, 1.0, BATCH),
        gumbel_scale=jnp.linspace(0.0, 2.0, BATCH),
        c_visit=jnp.linspace(10.0, 60.0, BATCH),
        c_scale=jnp.linspace(1.0, 0.05, BATCH),
    )


def row_of(tree, row):
    return jax.tree.map(lambda leaf: leaf[row] if np.ndim(leaf) else leaf, tree)


def visits_by_path(nodes):
    """The visits of every node that was left, by the moves that lead to it."""
    found, open_nodes = {}, [((), 0)]
    while open_nodes:
        path, index = open_nodes.pop()
        visits, children = nodes(index)
        found[path] = visits
        open_nodes += [((*path, slot), child) for slot, child in children.items()]
    return found


def paths_of(nodes):
    """The moves that lead to each node of a reference's tree."""
    paths = {0: ()}
    for index, node in nodes.items():
        paths |= {child: (*paths[index], slot) for slot, child in node.children.items()}
    return paths


def divergences(search, game, positions):
    """The margins at which searches first left the reference's lines, one per such position."""
    count = jax.tree.leaves(positions)[0].shape[0]
    knobs, margins = swept(search.simulations), []
    for start in range(0, count, BATCH):
        batch = row_of(positions, jnp.arange(start, start + BATCH) % count)
        keys = jax.random.split(jax.random.key(start), BATCH)
        noise_keys = split_keys(keys, 4)[2]
        noise = jax.vmap(lambda key: jax.random.gumbel(key, (game.num_slots,)))(noise_keys)
        decision, tree = jax.device_get(thought(search, game)(keys, batch, knobs))
        for row in range(min(BATCH, count - start)):
            own = jax.tree.map(lambda x, row=row: float(x[row]) if np.ndim(x) else x, knobs)
            plain = gumbel(
                game,
                1.0,
                row_of(batch, row),
                noise[row].tolist(),
                search,
                own,
                phases=isinstance(search, PhaseGumbel),
            )
            margin = divergence(row_of(tree, row), plain)
            if margin is None:
                check_root(row_of(decision, row), plain)
            else:
                margins.append(margin)
    return margins


def divergence(tree, plain):
    """None if a tree has the reference's visits at every node, else how close the call was."""

    def ours(node):
        children = {s: int(child) for s, child in enumerate(tree.child[node]) if child >= 0}
        return tree.visits[node][: (tree.labels[node] >= 0).sum()].tolist(), children

    found = visits_by_path(ours)
    if found == visits_by_path(lambda i: (plain.nodes[i].visits, plain.nodes[i].children)):
        return None
    paths = paths_of(plain.nodes)
    for line in plain.lines:
        if line.node is not None and paths[line.node] not in found:
            return line.margin
    return min(line.margin for line in plain.lines)


def check_root(decision, plain):
    """The move, the policy to learn and the values are the reference's too."""
    root = plain.nodes[0]
    width = len(root.labels)
    policy, _ = plain.improved(root)
    np.testing.assert_allclose(decision.policy[:width], policy, atol=2e-3)
    q = [x / n if n else 0.0 for x, n in zip(root.total, root.visits, strict=True)]
    np.testing.assert_allclose(decision.q[:width], q, atol=1e-5)
    most = [slot for slot, n in enumerate(root.visits) if n == max(root.visits)]
    scores, _ = plain.root_scores(most)
    assert scores[int(decision.slot)] > max(scores.values()) - 1e-3


def check(search, game, count, most_moves):
    margins = divergences(search, game, wander(game, count, most_moves))
    assert len(margins) <= max(1, count // 50), margins
    assert all(margin < 1e-5 for margin in margins)


@pytest.mark.parametrize("form", [Gumbel, PhaseGumbel])
@pytest.mark.parametrize(
    ("options", "game"),
    [
        ({"considered": 6}, TOY),
        ({"considered": 16, "rescale_values": True, "mixed_value": False}, TOY),
        ({"considered": 5, "max_depth": 2}, subtraction(17, 4)),
    ],
    ids=["paper", "rescaled, own value", "two plies"],
)
def test_visits_equal_those_of_a_plain_search_in_float64(form, options, game):
    check(form(60, **options), game, 16, 3)


@pytest.mark.slow
@pytest.mark.parametrize("form", [Gumbel, PhaseGumbel])
@pytest.mark.parametrize(
    ("options", "game", "most_moves"),
    [
        ({"considered": 16}, hash_game(30, legal=0.5, ends=0.05), 5),
        ({"considered": 7, "rescale_values": True}, pgx_game("connect_four"), 25),
        ({"considered": 16, "mixed_value": False}, ChessGame(), 60),
    ],
    ids=["toy", "connect four", "chess"],
)
def test_visits_equal_those_of_a_plain_search_in_float64_up_to_200_simulations(
    form, options, game, most_moves
):
    check(form(200, **options), game, 40, most_moves)
