"""A search over the legal moves in slots is the search over all labels."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame, position_from_fen
from azchess.games.game import Moves
from azchess.networks.evaluator import network_evaluator
from azchess.networks.transformer import TransformerConfig
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct


@dataclasses.dataclass(frozen=True)
class LabelledChess(ChessGame):
    """Chess with one slot per label: each legal move stands in the slot of its own number."""

    num_slots: int = 4672

    def moves(self, position):
        few = dataclasses.replace(self, num_slots=64)
        moves = super(LabelledChess, few).moves(position)
        places = jnp.where(moves.legal, moves.labels, self.num_slots)
        labels = jnp.full(self.num_slots, -1, jnp.int16).at[places].set(moves.labels, mode="drop")
        return Moves(labels=labels, count=moves.count)


@pytest.mark.parametrize("search", [Puct(24), Gumbel(24, considered=8)], ids=["puct", "gumbel"])
def test_slots_and_labels_give_the_same_visits(search):
    fens = [
        "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5N2/PPPP1PPP/RNBQK2R b KQkq - 3 3",
        "8/1P4k1/8/8/8/8/6K1/8 w - - 0 1",
    ]
    knobs = SearchKnobs(noise_fraction=0.0, gumbel_scale=0.0)
    visits = []
    for game in (ChessGame(num_slots=64), LabelledChess()):
        network = TransformerConfig(layers=1, width=8, heads=1).init(game, jax.random.key(3))
        positions = [position_from_fen(fen, game) for fen in fens]
        positions = jax.tree.map(lambda *leaves: jnp.stack(leaves), *positions)
        think = jax.jit(
            lambda network, keys, positions, game=game: search(
                game, network_evaluator(game), network, keys, positions, knobs
            )
        )
        decision = think(network, jax.random.split(jax.random.key(0), 2), positions)
        by_label = np.zeros((2, game.num_labels), int)
        for row, (labels, count) in enumerate(
            zip(np.asarray(decision.labels), np.asarray(decision.visits), strict=True)
        ):
            by_label[row, labels[labels >= 0]] = count[labels >= 0]
        visits.append(by_label)
    assert visits[0].sum(axis=1).tolist() == [24, 24]
    np.testing.assert_array_equal(visits[0], visits[1])
