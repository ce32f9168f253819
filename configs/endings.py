"""Does self-play master king and queen, and king and rook, against king, from any position?

Command: azchess train configs/endings.py
Hardware: two CPU cores; 35 minutes beside other work, and 5 to measure.
Expect: all of 1,000 won K+Q v K positions mated within 50 moves against perfect defence with 32
simulations, and 99.6 % of K+R v K; win, draw and loss told apart without search with 98.5 % and
95.9 % balanced accuracy (goal: 90 % mated and told apart). See experiments/results/endings.
"""

from azchess.evaluation.suite import EndingSuite
from azchess.games.chess import ChessGame
from azchess.learning.iterate import Knobs
from azchess.learning.learner import LearnConfig
from azchess.learning.losses import LearnKnobs
from azchess.learning.selfplay import SelfPlayConfig
from azchess.networks.transformer import TransformerConfig
from azchess.runs.config import RunConfig
from azchess.runs.starts import EndingStarts
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct

CONFIG = RunConfig(
    game=ChessGame(num_slots=40, memory=64),
    network=TransformerConfig(layers=2, width=48, heads=4),
    search=Gumbel(simulations=32, considered=32),
    selfplay=SelfPlayConfig(games=64, plies=8, max_plies=24),
    learn=LearnConfig(batch=256, updates=12, warmup=100, decay=8_400),
    knobs=Knobs(
        search=SearchKnobs(discount=0.96, temperature_plies=0.0),
        learn=LearnKnobs(learning_rate=6e-3, moves_left_weight=1.0),
    ),
    # Every position of both endings, and a quarter of drawn ones; the share in use, nearest mates
    # first, grows to all of them in the first 350 iterations. Games are cut early: their end is the
    # search's judgement then.
    starts=EndingStarts(materials=("KQvK", "KRvK"), either_side=True, drawn_share=0.25),
    first_reach=0.01,
    reach_iterations=350,
    capacity=512,
    iterations=500,
    checkpoint_every=100,
    evaluation=(
        EndingSuite(material="KQvK", max_plies=100, search=Puct(simulations=32)),
        EndingSuite(material="KRvK", max_plies=100, positions=250, search=Puct(simulations=32)),
    ),
)
