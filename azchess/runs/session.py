"""A game between a player and a run's network: the positions, and what the network thinks."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from azchess.games.game import Game, Position
from azchess.learning.selfplay import start
from azchess.networks.evaluator import network_evaluator
from azchess.runs.analysis import Advice, line_names
from azchess.runs.folder import Loaded
from azchess.runs.notation import View, advance, look, notation_of
from azchess.search.knobs import SearchKnobs, per_game
from azchess.search.policy import TreeSearch
from azchess.search.result import SearchResult, analyse
from azchess.search.reuse import root_visits
from azchess.search.tree import Tree

begin = jax.jit(start, static_argnums=0)


@functools.partial(jax.jit, static_argnums=(0, 1))
def think(
    game: Game,
    search: TreeSearch,
    network: Any,
    position: Position,
    knobs: SearchKnobs,
    tree: Tree | None = None,
) -> tuple[SearchResult, Tree]:
    """Searches one position without noise, as a batch of one, and makes room in the tree again.

    What the tree holds already counts as part of the search (Lc0's visits).
    """
    evaluate = network_evaluator(game)
    positions = jax.tree.map(lambda leaf: leaf[None], position)
    keys = jax.random.split(jax.random.key(0), 1)
    knobs = per_game(knobs.greedy(), 1)
    if tree is not None:
        most = search.simulations if knobs.budget is None else knobs.budget
        left = jnp.minimum(most, search.simulations) - root_visits(tree)
        knobs = dataclasses.replace(knobs, budget=left.astype(jnp.float32))
    found, grown = analyse(search, game, evaluate, network, keys, positions, knobs, tree=tree)
    return found, grown if tree is None else search.stay(grown, knobs.discount)


@functools.partial(jax.jit, static_argnums=0)
def follow(search: TreeSearch, tree: Tree, slot: Int[Array, "1"], knobs: SearchKnobs) -> Tree:
    """The tree of a position after a move."""
    return search.advance(tree, slot, per_game(knobs, 1).discount)


@functools.partial(jax.jit, static_argnums=(0, 1))
def nothing(game: Game, search: TreeSearch, network: Any, position: Position) -> Tree:
    """A tree of one game that holds nothing yet."""
    positions = jax.tree.map(lambda leaf: leaf[None], position)
    return search.no_trees(game, network_evaluator(game), network, positions)


class Session:
    """One player, one network, and the moves made so far, which can be taken back.

    What a search finds is kept while moves are made, if the search can go on in it. Everything is
    compiled once per process and kind of run. Raises ValueError for simulations or a FEN that
    cannot be.
    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        simulations: int | None = None,
        fen: str | None = None,
        seed: int = 0,
    ):
        config = loaded.config
        self.network, self.search, self.knobs = loaded.network, config.search, config.knobs.search
        if simulations is not None:
            self.search = dataclasses.replace(self.search, simulations=simulations)
        self.notation = notation_of(config.game)
        self.game = self.notation.game
        self._starts, self._fen, self._key = config.starts, fen, jax.random.key(seed)
        self.new(fen)

    def new(self, fen: str | None = None) -> None:
        """Begins a game: at a FEN, else where the session began, else at a start of the run."""
        fen = fen or self._fen
        if fen is None:
            self._key, key = jax.random.split(self._key)
            starts = self._starts.pool(self.game)
            first = jax.tree.map(lambda leaf: leaf[0], begin(self.game, starts, key[None]))
        else:
            first = self.notation.read(fen)
        self._line = [(first, self._look(first))]
        self._tree = None
        self.labels: list[int] = []
        self.resigned: int | None = None

    @property
    def position(self) -> Position:
        """The position on the board."""
        return self._line[-1][0]

    @property
    def view(self) -> View:
        """What is asked of the position on the board."""
        return self._line[-1][1]

    @property
    def over(self) -> bool:
        """Whether no further move is played."""
        return self.resigned is not None or bool(self.view.over)

    @property
    def legal(self) -> list[int]:
        """The labels of the legal moves."""
        labels = self.view.moves.labels
        return labels[labels >= 0].tolist()

    def result(self) -> str:
        """How the game ended, empty while it goes on."""
        if self.resigned is not None:
            sides = self.notation.sides
            return f"{sides[self.resigned]} resigns: {sides[1 - self.resigned]} wins"
        return self.notation.words(self.position, self.view) if self.over else ""

    def push(self, text: str | int) -> str:
        """Makes a move, as a player writes it or as a label; returns its name.

        Raises ValueError where the game is over or the move is not legal.
        """
        self._check_running()
        label = text if isinstance(text, int) else self.notation.parse(self.position, text)
        if label not in self.legal:
            raise ValueError(f"{text} is not legal: {', '.join(map(str, self.legal))} are")
        name = self.notation.name(self.position, label)
        if self._tree is not None:
            slot = np.array([self.legal.index(label)], np.int32)
            self._tree = follow(self.search, self._tree, slot, self.knobs)
        after = advance(self.game, self.position, np.int32(label))
        self._line.append((after, self._look(after)))
        self.labels.append(label)
        return name

    def undo(self, seat: int) -> None:
        """Takes back a seat's resignation, or else its last move and what was played after it.

        Raises ValueError where the seat has made no move.
        """
        if self.resigned == seat:
            self.resigned = None
            return
        own = [ply for ply, (_, view) in enumerate(self._line[:-1]) if view.mover == seat]
        if not own:
            raise ValueError("there is no move of yours to take back")
        del self._line[own[-1] + 1 :], self.labels[own[-1] :]
        self._tree = None
        self.resigned = None

    def resign(self, seat: int) -> None:
        """A seat gives up."""
        self._check_running()
        self.resigned = seat

    def advice(self) -> Advice:
        """Searches the position on the board. Raises ValueError where the game is over."""
        self._check_running()
        run = self.game, self.search, self.network, self.position
        if self._tree is None and self.search.keeps_trees:
            self._tree = nothing(*run)
        kept = 0 if self._tree is None else int(root_visits(self._tree)[0])
        found, tree = think(*run, self.knobs, self._tree)
        self._tree = tree if self.search.keeps_trees else None
        result = jax.tree.map(lambda leaf: leaf[0], jax.device_get(found))
        names = [self.notation.name(self.position, label) for label in self.legal]
        line = line_names(self.notation, self.position, result.line.tolist())
        return Advice(result=result, names=names, line=line, kept=kept)

    def picture(self, first_below: bool, letters: bool = False) -> str:
        """The board, with the last move marked where the game's notation can."""
        last = self.labels[-1] if self.labels else None
        return self.notation.board(self.position, self.view, last, first_below, letters)

    def _look(self, position: Position) -> View:
        view = jax.device_get(look(self.notation, position))
        if view.moves.count > self.game.num_slots:
            raise ValueError(
                f"the position has {view.moves.count} legal moves; {self.game.name} has room for "
                f"num_slots = {self.game.num_slots}"
            )
        return view

    def _check_running(self) -> None:
        if self.over:
            raise ValueError("the game is over: `undo` takes back, `new` begins another")
