"""Does the whole of training run on full chess? A smoke run for two CPU cores.

Command: azchess train configs/chess.py --iterations 2
Hardware: any; sized for two CPU cores.
Expect: no strength, only that it runs: a test trains two iterations of it.
"""

from azchess.games.chess import ChessGame
from azchess.learning.iterate import Knobs
from azchess.learning.learner import LearnConfig
from azchess.learning.selfplay import SelfPlayConfig
from azchess.networks.transformer import TransformerConfig
from azchess.runs.config import RunConfig
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs

CONFIG = RunConfig(
    game=ChessGame(num_boards=2),
    network=TransformerConfig(layers=2, width=32, heads=2),
    search=Gumbel(simulations=8, considered=8),
    selfplay=SelfPlayConfig(games=16, plies=16, max_plies=64),
    learn=LearnConfig(batch=64, updates=4),
    knobs=Knobs(search=SearchKnobs(temperature_plies=30.0)),
    capacity=128,
    iterations=20,
    checkpoint_every=10,
)
