"""Our chess as a pgx environment; importing this module imports pgx, which starts a device."""

import dataclasses
import functools
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pgx
from flax import serialization
from jaxtyping import Array, Bool, Float, Int, Int8, Int32, PRNGKeyArray

from azchess.games.chess import movement
from azchess.games.chess.game import ChessGame
from azchess.games.chess.labels import NUM_LABELS
from azchess.games.chess.planes import NUM_BOARDS, SHAPE, legal_mask, planes
from azchess.games.chess.position import CODES, Position
from azchess.games.game import Moves
from azchess.pytree import pytree

DRAWN_AS = np.zeros(8, np.int8)
"""pgx's number of a piece, pawn to king from 1 to 6, by the sum of 2**plane of its packed code."""
for _number, _code in enumerate(CODES.values(), start=1):
    DRAWN_AS[np.dot(_code, [1, 2, 4])] = _number


class Drawing(NamedTuple):
    """What pgx's visualizer reads of a chess state, always as white sees it."""

    color: int
    board: Int8[np.ndarray, "64"]
    """pgx's number of the piece on each square, negative where it is black."""


@pytree  # pyright: ignore[reportGeneralTypeIssues]: pgx's own decorator hides that it freezes
class State(pgx.State):
    """A game of chess in pgx's shell: `position` and `moves` are ours, the other fields pgx's.

    `current_player` and `rewards` `[2]` go by seat, and seats are drawn at random; `observation`
    `[8, 8, 119]` is what `planes.planes` says; `legal_action_mask` `[4672]` is all True once the
    game is terminated; `truncated` says that the ply cap has cut it.
    """

    _position: Position
    _moves: Moves
    _white: Int32[Array, "*b"]
    """The seat that plays white."""

    @property
    def position(self) -> Position:
        """The position as search and replay hold it."""
        return self._position

    @property
    def moves(self) -> Moves:
        """The legal moves in slots; a finished game still has those of its last position."""
        return self._moves

    def replace(self, **changes: Any) -> "State":
        """The same state with other values in the named fields."""
        return dataclasses.replace(self, **changes)

    @property
    def env_id(self) -> Literal["chess"]:
        """The name by which pgx knows how to draw a state."""
        return "chess"

    @property
    def _x(self) -> Drawing:
        words = np.asarray(self._position.now.board)
        bits = ((words[..., None] >> np.arange(32, dtype=np.uint32)) & 1).reshape(4, 8, 8)
        board = DRAWN_AS[bits[0] + 2 * bits[1] + 4 * bits[2]] * np.where(bits[3], 1, -1)
        board = -board[:, ::-1] if self._position.black else board
        return Drawing(color=0, board=board.ravel().astype(np.int8))


def _to_dict(state: State) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _from_dict(state: State, leaves: dict[str, Any]) -> State:
    return jax.tree.unflatten(jax.tree.structure(state), [leaves[name] for name in _to_dict(state)])


# pgx promises of its states that `flax.serialization` can write and read them.
serialization.register_serialization_state(State, _to_dict, _from_dict)


class Chess(pgx.Env):
    """Chess by the laws of FIDE wherever a pgx environment is asked for.

    Options are those of `ChessGame`, e.g. `Chess(max_plies=512)`; the eight boards that the planes
    show are always kept. What pgx says of its environments holds: steps after the end change
    nothing, an illegal action loses. One thing is better: the start that
    `pgx.experimental.auto_reset` returns still carries the flags of the game that has ended, and
    here it is played on from nevertheless, so that a search from it sees a game.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        if "num_boards" in options:
            raise ValueError(f"Chess: num_boards is always {NUM_BOARDS}, which the planes show")
        self.game = ChessGame(num_boards=NUM_BOARDS, **options)
        """The same rules as search, self-play and replay ask for them."""

    def from_position(self, position: Position, key: PRNGKeyArray | None = None) -> State:
        """The state of a position with eight boards.

        key: draws the seats; without one, seat 0 plays white.

        Raises ValueError for a position that was made for another game than `self.game`.
        """
        shapes = [
            [leaf.shape for leaf in jax.tree.leaves(tree)]
            for tree in (position, jax.eval_shape(self.game.init, jax.random.key(0)))
        ]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"the position is not one of {self.game}: make it with "
                "position_from_fen(fen, env.game), and batches with jax.vmap"
            )
        white = jnp.int32(0) if key is None else _drawn(key)
        return _state(self.game, position, white)

    def step(
        self,
        state: pgx.State,
        action: Int[Array, ""] | int,
        key: PRNGKeyArray | None = None,
    ) -> State:
        """The state after an action, as `pgx.Env.step` defines it; the key is not used.

        pgx selects between dense masks; here the board is chosen first and its mask written once.
        """
        assert isinstance(state, State)
        # A terminated state has all labels legal, label 0 among them, which no move has, and a cut
        # one has reached the cap. Other flags are left over from a game before an automatic reset.
        capped = state._position.now.ply >= (self.game.max_plies or jnp.iinfo(jnp.int32).max)
        over = (state.terminated & state.legal_action_mask[0]) | (state.truncated & capped)
        action = jnp.asarray(action, jnp.int32)
        known = (action >= 0) & (action < NUM_LABELS)
        illegal = ~(known & state.legal_action_mask.at[action].get(mode="clip"))
        position = jax.tree.map(
            lambda old, new: jnp.where(over, old, new),
            state._position,
            self.game.step(state._position, action),
        )
        after = state_of(self.game, position, state._white, illegal | (over & state.terminated))
        loss = jnp.where(jnp.arange(2) == state.current_player, -1.0, 1.0)
        after = after.replace(
            rewards=jnp.where(illegal, loss, jnp.where(over, 0.0, after.rewards)),
            truncated=jnp.where(over, state.truncated, after.truncated),
        )
        return after.replace(observation=self.observe(after))

    def _init(self, key: PRNGKeyArray) -> State:
        position = self.game.init(jax.random.fold_in(key, 1))
        return state_of(self.game, position, _drawn(key))

    def _step(self, state: pgx.State, action: Int[Array, ""], key: PRNGKeyArray | None) -> State:
        del key
        assert isinstance(state, State)
        return state_of(self.game, self.game.step(state._position, action), state._white)

    def _observe(self, state: pgx.State, player_id: Int[Array, ""]) -> Float[Array, "8 8 119"]:
        assert isinstance(state, State)
        return planes(self.game.history(state._position), player_id != state._white)

    @property
    def id(self) -> Literal["chess"]:
        """The name of the game, which is also that of pgx's own rules."""
        return "chess"

    @property
    def version(self) -> str:
        """The version of these rules, unlike any of pgx's."""
        return f"azchess-{self.game.version}"

    @property
    def num_players(self) -> int:
        """Two."""
        return 2

    @property
    def num_actions(self) -> int:
        """A, AlphaZero's 64 x 73 labels."""
        return NUM_LABELS

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Ranks, files, planes."""
        return SHAPE


def _drawn(key: PRNGKeyArray) -> Int32[Array, ""]:
    """The seat that plays white, drawn as pgx draws it."""
    return jax.random.bernoulli(key).astype(jnp.int32)


@functools.partial(jax.jit, static_argnums=0)
def _state(game: ChessGame, position: Position, white: Int32[Array, ""]) -> State:
    return state_of(game, position, white).replace(observation=planes(game.history(position)))


def state_of(
    game: ChessGame,
    position: Position,
    white: Int32[Array, ""],
    ended: Bool[Array, ""] | bool = False,
) -> State:
    """The state of a position, its observation still to be written.

    white: the seat that plays white.
    ended: whether the game is over although the position is not.
    """
    found = movement.targets(position.now, game.chess960)
    moves = movement.slots(found, game.num_slots)
    status = game.status(position, moves)
    terminated = status.terminated | ended
    mover = white ^ position.black
    outcome = status.outcome.astype(jnp.float32)
    return State(
        current_player=mover,
        observation=jnp.zeros(SHAPE, jnp.float32),
        rewards=jnp.where(jnp.arange(2) == mover, outcome, -outcome),
        terminated=terminated,
        truncated=status.truncated,
        legal_action_mask=legal_mask(found, terminated),
        _step_count=position.now.ply.astype(jnp.int32),
        _position=position,
        _moves=moves,
        _white=white,
    )
