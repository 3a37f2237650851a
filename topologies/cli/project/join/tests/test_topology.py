"""The topology, driven by a test: no Java, no files, no waiting."""

from windbolt.testing import TopologyDriver, run_bolt

from topology import Reminder, payments_of_orders, topology

ORDER = {"order": "o1", "user": "ada", "amount": 3.0}
PAYMENT = {"payment": "p1", "order": "o1", "paid": 3.0}


def test_an_order_meets_its_payment() -> None:
    run = run_bolt(
        payments_of_orders,
        {
            "waiting": [
                {**ORDER, "ts": "2024-01-01T06:00:00Z", "until": "2024-01-01T06:30:00Z"}
            ],
            "payments": [{**PAYMENT, "ts": "2024-01-01T06:10:00Z"}],
        },
    )
    assert run.rows == [{"order": "o1", "user": "ada", "amount": 3.0, "paid": 3.0}]


def test_what_is_still_to_be_paid() -> None:
    rows = [
        {"order": "o1", "user": "ada", "amount": 3.0, "paid": 1.0},
        {"order": "o2", "user": "bob", "amount": 2.0, "paid": 2.0},
    ]
    assert run_bolt(Reminder(), rows).rows == [
        {"order": "o1", "user": "ada", "missing": 2.0}
    ]


def test_an_order_is_unpaid_once_both_streams_are_past_its_30_minutes() -> None:
    driver = TopologyDriver(topology)
    driver.push("orders", [{**ORDER, "ts": "2024-01-01T06:00:00Z"}])
    driver.advance_watermark("2024-01-01T06:30:00Z")
    assert driver.read("reminders") == []
    driver.advance_watermark("2024-01-01T06:31:00Z")
    assert [row["missing"] for row in driver.read("reminders")] == [3.0]
    driver.push("payments", [{**PAYMENT, "ts": "2024-01-01T06:10:00Z"}])
    assert [row["payment"] for row in driver.read("late")] == ["p1"]
