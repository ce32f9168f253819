"""Do leaves in batches cost strength? Searches of one and of eight leaves play connect four.

    python experiments/batched_leaves.py [--pairs 512] [--simulations 400] [--leaves 8]

Both sides search with PUCT and one random play-out per leaf. Every opening of four random moves is
played twice with seats swapped; the interval is that of the mean over such pairs. Appends a row to
experiments/results/batched_leaves/rows.jsonl.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azchess.games.pgx_games import pgx_game
from azchess.networks.rollouts import rollout_evaluator
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct

RESULTS = pathlib.Path(__file__).parent / "results" / "batched_leaves"
GAME = pgx_game("connect_four")
OPENING = 4


def mover(search: Puct) -> Any:
    """`(keys, positions) -> positions` after the search's moves; finished games stay."""
    evaluate = rollout_evaluator(GAME)
    knobs = SearchKnobs(c_init=2.0, c_factor=0.0).greedy()

    @jax.jit
    def move(keys, positions):
        decision = search(GAME, evaluate, None, keys, positions, knobs)
        return step(positions, decision.label)

    return move


def step(positions: Any, labels: Any) -> Any:
    """Positions after moves, and those of finished games as they were."""
    over = jax.vmap(lambda p: GAME.status(p, GAME.moves(p)).over)(positions)
    after = jax.vmap(GAME.step)(positions, jnp.maximum(labels, 0))

    def keep(old, new):
        return jnp.where(over.reshape(over.shape + (1,) * (new.ndim - 1)), old, new)

    return jax.tree.map(keep, positions, after)


@jax.jit
def opened(keys: Any) -> Any:
    """Positions after a few random moves."""

    def play(positions, key):
        moves = jax.vmap(GAME.moves)(positions)
        logits = jnp.where(moves.legal, 0.0, -jnp.inf)
        slots = jax.vmap(jax.random.categorical)(jax.random.split(key, len(keys)), logits)
        return step(positions, jnp.take_along_axis(moves.labels, slots[:, None], 1)[:, 0]), None

    turns = jax.random.split(keys[0], OPENING)
    return jax.lax.scan(play, jax.vmap(GAME.init)(keys), turns)[0]


def match(first: Any, second: Any, pairs: int, seed: int) -> np.ndarray:
    """The second player's score of each pair of games, 0 to 2."""
    keys = jax.random.split(jax.random.key(seed), pairs)
    sides = [opened(keys), opened(keys)]
    for ply in range(GAME.board[0] * GAME.board[1] - OPENING):
        lanes = jax.vmap(jax.random.fold_in, (0, None))(keys, ply)
        turn = (first, second) if ply % 2 == 0 else (second, first)
        sides = [move(lanes, side) for move, side in zip(turn, sides, strict=True)]

    def result(side):
        status = jax.vmap(lambda p: GAME.status(p, GAME.moves(p)))(side)
        seat = jax.vmap(GAME.mover)(side)
        return np.asarray(jnp.where(seat == 0, status.outcome, -status.outcome))

    # Seat 0 is `first` in the first game of a pair and `second` in the other one.
    return 1.0 + (result(sides[1]) - result(sides[0])) / 2


def elo(score: float) -> float:
    """Elo difference of an expected score."""
    return -400 * math.log10(1 / min(max(score, 1e-6), 1 - 1e-6) - 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=512)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--leaves", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.time()
    one, many = Puct(args.simulations), Puct(args.simulations, leaves=args.leaves)
    scores = match(mover(one), mover(many), args.pairs, args.seed) / 2
    error = 1.96 * scores.std(ddof=1) / math.sqrt(len(scores))
    row = vars(args) | {
        "score": scores.mean(),
        "elo": round(elo(scores.mean()), 1),
        "low": round(elo(scores.mean() - error), 1),
        "high": round(elo(scores.mean() + error), 1),
        "seconds": round(time.time() - start),
        "device": jax.devices()[0].device_kind,
        "cores": os.cpu_count(),
        "jax": jax.__version__,
        "date": str(datetime.date.today()),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "rows.jsonl").open("a") as rows:
        rows.write(json.dumps(row) + "\n")
    print(f"{args.leaves} leaves against 1: {row['elo']} Elo ({row['low']} to {row['high']})")


if __name__ == "__main__":
    main()
