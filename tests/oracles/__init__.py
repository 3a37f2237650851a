"""What Azure Stream Analytics and StreamInsight answer to a scenario, said a second time.

Written from the list of their features alone, without windbolt's code in sight: event by event, in whole microseconds,
nothing clever. `tests/oracles/test_azure.py` and `tests/oracles/test_streaminsight.py` hold some hundreds of random
scenarios against them, and `python -m tests.oracles 5000` as many as it is told.
"""
