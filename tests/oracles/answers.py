"""All that the documents allow windbolt to answer to a scenario."""

from tests.oracles import azure, streaminsight
from tests.oracles.expected import Expected, Json


def azure_answers(scenario: Json) -> list[Expected]:
    """One; with substreams two, as it is said in two ways when windows are given out."""
    moves = [False, True] if "substreams" in scenario["bolt"] else [False]
    return [azure.expected(scenario, azure.Readings(own_arrival_moves=moved)) for moved in moves]


def streaminsight_answers(scenario: Json) -> list[Expected]:
    """One."""
    return [streaminsight.expected(scenario)]
