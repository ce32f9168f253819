"""Any two-player pgx environment as a `Game`: connect four, tic-tac-toe, gardner chess and more."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int16, Int32, PRNGKeyArray

from azchess.games.game import Game, Moves, Record, Status, moves_of
from azchess.pytree import pytree

# Caps after which pgx reports a game as terminated without a winner (pgx 2.6.0 sources).
PLY_CAPS = {"animal_shogi": 256, "gardner_chess": 256, "shogi": 512}


@pytree
class PgxPosition:
    """A pgx state without its observation, and the pgx player who makes the first move.

    pgx draws at random which player that is, so that its player numbers are not seats.
    """

    state: Any
    first: Int32[Array, "*b"]


@dataclasses.dataclass(frozen=True)
class PgxGame(Game):
    """A deterministic two-player zero-sum pgx environment; build it with `pgx_game`."""

    name: str
    version: str
    board: tuple[int, int]
    num_labels: int
    num_slots: int
    num_features: int
    num_boards: int = 1

    @property
    def env(self) -> Any:
        """The pgx environment itself."""
        return _make(self.name)

    def init(self, key: PRNGKeyArray) -> PgxPosition:
        state = self.env.init(key)
        return _slim(state, state.current_player)

    def step(self, position: PgxPosition, label: Int[Array, ""]) -> PgxPosition:
        return _slim(self.env.step(self._state(position), label), position.first)

    def moves(self, position: PgxPosition) -> Moves:
        # pgx marks every label of a finished game as legal.
        mask = position.state.legal_action_mask & ~position.state.terminated
        return moves_of(mask, self.num_slots)

    def status(self, position: PgxPosition, moves: Moves) -> Status:
        state = position.state
        outcome = state.rewards[state.current_player]
        cap = PLY_CAPS.get(self.name)
        capped = (state._step_count >= cap) & (outcome == 0) if cap else jnp.zeros((), bool)
        return Status(
            terminated=state.terminated & ~capped,
            truncated=(state.terminated & capped) | state.truncated,
            outcome=jnp.where(state.terminated, jnp.sign(outcome), 0).astype(jnp.int8),
        )

    def mover(self, position: PgxPosition) -> Int32[Array, ""]:
        return (position.state.current_player != position.first).astype(jnp.int32)

    def tokens(self, history: Record) -> Float[Array, "Q F"]:
        state = self._state(jax.tree.map(lambda leaf: leaf[0], history))
        planes = self.env.observe(state)
        return planes.reshape(-1, self.num_features).astype(jnp.float32)

    @property
    def geometry(self) -> Int16[np.ndarray, "A 3"]:
        known = _geometry(self.name, self.board, self.num_labels)
        return super().geometry if known is None else known

    def _state(self, position: PgxPosition) -> Any:
        planes = jnp.zeros((*self.board, self.num_features), jnp.float32)
        return position.state.replace(observation=planes)


def pgx_game(name: str) -> PgxGame:
    """The pgx environment of that name as a `Game`.

    Raises ValueError for names pgx does not have, for games of one or many players, of hidden cards
    or of dice, and for chess, whose pgx rules miss repetitions: use `azchess.games.chess`.
    """
    refused = {
        "chess": "pgx's rules miss threefold repetitions; use azchess.games.chess.ChessGame",
        "backgammon": "it has dice",
        "kuhn_poker": "it has hidden cards",
        "leduc_holdem": "it has hidden cards",
    }
    if name in refused:
        raise ValueError(f"pgx_game({name!r}): {refused[name]}")
    try:
        env = _make(name)
    except ValueError as error:
        raise ValueError(f"pgx_game({name!r}): pgx has no such environment") from error
    if env.num_players != 2 or len(env.observation_shape) != 3:
        raise ValueError(f"pgx_game({name!r}): only two-player board games are supported")
    rows, columns, features = env.observation_shape
    return PgxGame(
        name=name,
        version=env.version,
        board=(rows, columns),
        num_labels=env.num_actions,
        num_slots=min(env.num_actions, 128) if name == "gardner_chess" else env.num_actions,
        num_features=features,
    )


@functools.cache
def _make(name: str) -> Any:
    # pgx puts arrays on a device when it is imported, so it is imported when a game is made.
    with jax.ensure_compile_time_eval():
        import pgx

        return pgx.make(name)  # pyright: ignore[reportArgumentType]


def _slim(state: Any, first: Int32[Array, ""]) -> PgxPosition:
    return PgxPosition(state=state.replace(observation=jnp.zeros((0,))), first=first)


def _geometry(
    name: str, board: tuple[int, int], num_labels: int
) -> Int16[np.ndarray, "A 3"] | None:
    rows, columns = board
    squares = rows * columns
    labels = np.arange(num_labels)
    if name == "gardner_chess":
        return _gardner_geometry()
    if num_labels == columns:  # a disc falls from the top of a column to its bottom
        return np.stack([labels, squares - columns + labels, 0 * labels], axis=1).astype(np.int16)
    if num_labels <= squares + 1:  # a stone on a square, and perhaps a pass or a swap
        square = np.where(labels < squares, labels, 0)
        kind = (labels >= squares).astype(int)
        return np.stack([square, square, kind], axis=1).astype(np.int16)
    return None


def _gardner_geometry() -> Int16[np.ndarray, "A 3"]:
    """Gardner chess: pgx numbers squares by file, and moves by 49 planes per from-square."""
    far, near = [4, 3, 2, 1], [1, 2, 3, 4]
    steps = [(0, 1), (1, 1), (-1, 1)] * 3  # underpromotions: straight, right, left
    steps += [(0, -n) for n in far] + [(0, n) for n in near]
    steps += [(-n, 0) for n in far] + [(n, 0) for n in near]
    steps += [(-n, -n) for n in far] + [(n, n) for n in near]
    steps += [(-n, n) for n in far] + [(n, -n) for n in near]
    steps += [(-2, -1), (-2, 1), (-1, -2), (-1, 2), (2, -1), (2, 1), (1, -2), (1, 2)]
    rows = []
    for square in range(25):
        file, rank = divmod(square, 5)
        origin = (4 - rank) * 5 + file
        for plane, (right, up) in enumerate(steps):
            to_file, to_rank = file + right, rank + up
            inside = 0 <= to_file < 5 and 0 <= to_rank < 5
            target = (4 - to_rank) * 5 + to_file if inside else origin
            rows.append((origin, target, 1 + plane // 3 if plane < 9 else 0))
    return np.array(rows, np.int16)
