"""Does self-play learn to mate with king and queen, within minutes, on two CPU cores?

Command: ./scripts/quickstart, or azchess train configs/quickstart.py
Hardware: two CPU cores, about 6 minutes from a bare clone to the report.
Expect: from mates in one, two and three moves, the trained network with 32 simulations mates a
perfect defender within 20 plies in 99 %, the untrained one in about 30 %; the numbers of
the last run are in experiments/results/quickstart.
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
    game=ChessGame(num_slots=40, memory=32),
    network=TransformerConfig(layers=2, width=32, heads=4),
    search=Gumbel(simulations=32, considered=32),
    selfplay=SelfPlayConfig(games=64, plies=8, max_plies=10),
    learn=LearnConfig(batch=256, updates=12, warmup=50, decay=1560),
    knobs=Knobs(
        search=SearchKnobs(discount=0.95, temperature_plies=0.0),
        learn=LearnKnobs(learning_rate=6e-3, moves_left_weight=1.0),
    ),
    starts=EndingStarts(materials=("KQvK",), longest=5),
    first_reach=0.15,
    reach_iterations=60,
    capacity=256,
    iterations=130,
    checkpoint_every=65,
    evaluation=(
        EndingSuite(
            material="KQvK", distances=(1, 3, 5), max_plies=20, search=Puct(simulations=32)
        ),
    ),
)
