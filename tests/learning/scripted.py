"""A search that plays moves written down beforehand, and small setups that tests share."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import chess
import jax
import jax.numpy as jnp
import numpy as np

from azchess.games.chess import move_to_label, position_from_board
from azchess.games.pgx_games import pgx_game
from azchess.learning.iterate import Knobs, Setup
from azchess.learning.learner import LearnConfig
from azchess.learning.losses import LearnKnobs
from azchess.learning.replay import add, empty_replay
from azchess.learning.selfplay import SelfPlayConfig, Starts, new_games, play
from azchess.networks.evaluator import uniform_evaluator
from azchess.networks.transformer import TransformerConfig
from azchess.search.decision import Decision
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs

WIN, DRAW, LOSS = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
FOOLS_MATE = "f3 e5 g4 Qh4#"
SCHOLARS_MATE = "e4 e5 Qh5 Nc6 Bc4 Nf6 Qxf7#"
# Sam Loyd's shortest stalemate.
STALEMATE = "e3 a5 Qh5 Ra6 Qxa5 h5 Qxc7 Rah6 h4 f6 Qxd7+ Kf7 Qxb7 Qd3 Qxb8 Qh7 Qxc8 Kg6 Qe6"
REPETITION = "Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1 Ng8"
QUIET = "a3 a6 b3 b6 c3 c6 d3 d6 e3 e6 f3 f6 g3 g6 h3 h6 a4 a5 b4 b5"

SCRIPT_KNOBS = SearchKnobs(temperature_plies=0.0)


@dataclasses.dataclass(frozen=True)
class Scripted:
    """Plays the script that it is given as params: `labels` `[B, P]` and `wdl` `[B, P, 3]`.

    `ply` reads off a position how many moves its game has seen. Where the script names a move that
    is not legal, the first legal move is played. It expects `moves_left` plies more.
    """

    ply: Callable[[Any], jax.Array]
    moves_left: float = 0.0

    def __call__(self, game, evaluate, params, keys, positions, knobs):
        del evaluate, knobs
        moves = jax.vmap(game.moves)(positions)
        rows, ply = jnp.arange(keys.shape[0]), self.ply(positions)
        wanted = moves.labels == params["labels"][rows, ply][:, None]
        slot = wanted.argmax(axis=-1).astype(jnp.int32)
        policy = jax.nn.one_hot(slot, game.num_slots)
        zeros = jnp.zeros(keys.shape, jnp.int32)
        return Decision(
            slot=slot,
            policy=policy,
            labels=moves.labels,
            visits=policy.astype(jnp.int32),
            q=jnp.zeros_like(policy),
            prior=policy,
            network_prior=policy,
            value=jnp.zeros(keys.shape),
            wdl=params["wdl"][rows, ply],
            depth=zeros,
            lockstep=zeros.astype(jnp.float32),
            moves_left=jnp.full(keys.shape, self.moves_left),
        )


def script(lanes, plies, wdl=None):
    """Params of `Scripted`: moves as labels per lane, padded with moves that do not exist."""
    labels = np.full((len(lanes), plies), -2, np.int32)
    for lane, moves in enumerate(lanes):
        labels[lane, : len(moves)] = moves
    if wdl is None:
        wdl = np.tile(np.float32(DRAW), (len(lanes), plies, 1))
    return {"labels": jnp.asarray(labels), "wdl": jnp.asarray(wdl)}


def played(game, search, config, params, starts=None, knobs=SCRIPT_KNOBS, seed=0):
    """Plies `[T, B]` of fresh games, and the games after them."""
    starts = Starts() if starts is None else starts

    @jax.jit
    def run(params, knobs, starts):
        games = new_games(game, starts, jax.random.key(seed), config.games)
        return play(game, uniform_evaluator(game), search, config, params, games, knobs, starts)

    return run(params, knobs, starts)


@functools.partial(jax.jit, static_argnums=1)
def remembered(plies, capacity):
    """A replay that has seen these plies and nothing else."""
    return add(empty_replay(plies, capacity), plies)


def labels_of(text):
    """The labels of a chess game in the usual notation; checks that the moves are legal."""
    board, labels = chess.Board(), []
    for san in text.split():
        move = board.parse_san(san)
        labels.append(move_to_label(position_from_board(board), move))
        board.push(move)
    return labels


NETWORK = TransformerConfig(layers=1, width=8, heads=2, hidden=1, summary=1)


def tiny_setup(game=None, search=None, *, games=4, plies=4, capacity=16, mesh=None, **learn):
    """Training so small that it compiles in seconds."""
    return Setup(
        game=pgx_game("tic_tac_toe") if game is None else game,
        search=Gumbel(simulations=2, considered=2) if search is None else search,
        selfplay=SelfPlayConfig(games=games, plies=plies),
        learn=LearnConfig(**{"batch": 8, "updates": 2, "warmup": 0} | learn),
        capacity=capacity,
        mesh=mesh,
    )


def knob_arrays(**learn):
    """Knobs as float32 arrays, which is how a run passes them."""
    knobs = Knobs(search=SearchKnobs(), learn=LearnKnobs(**learn))
    return jax.tree.map(jnp.float32, knobs)
