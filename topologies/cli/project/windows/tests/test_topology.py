"""The topology, driven by a test: no Java, no files, no waiting."""

from windbolt.testing import TopologyDriver, run_bolt

from topology import revenue, topology

ADA = {"id": "1", "user": "ada", "amount": 2.0, "ts": "2024-01-01T06:00:01Z"}
ADA_AGAIN = {"id": "2", "user": "ada", "amount": 3.0, "ts": "2024-01-01T06:00:59Z"}
BOB = {"id": "3", "user": "bob", "amount": 1.0, "ts": "2024-01-01T06:01:30Z"}


def test_orders_are_added_up_by_user_and_minute() -> None:
    run = run_bolt(revenue, [ADA, ADA_AGAIN, BOB])
    results = [(row["user"], row["orders"], row["revenue"]) for row in run.rows]
    assert results == [("ada", 2, 5.0), ("bob", 1, 1.0)]


def test_an_order_is_late_once_its_minute_has_fired() -> None:
    driver = TopologyDriver(topology)
    driver.push("orders", [ADA, BOB, ADA_AGAIN])
    assert [row["id"] for row in driver.read("late")] == ["2"]
    assert [row["revenue"] for row in driver.read("out")] == [2.0]
    driver.close()
    assert [row["revenue"] for row in driver.read("out")] == [1.0]
