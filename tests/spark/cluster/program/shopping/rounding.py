"""A module of the user's, which lies beside the one that needs it."""


def rounded(amount: float) -> float:
    return round(amount, 2)
