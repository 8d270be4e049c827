from decimal import Decimal

from gpuwatch import cost
from gpuwatch.clock import Window
from gpuwatch.demo import funnel
from gpuwatch.listings import ledger_listing
from gpuwatch.output import as_table
from tests.test_cost import *


def test_x():
    print(cost.__file__)
    world = World().add(samples(Gpu(), minutes(0, HOUR), {"gpu_util_ratio": 0.97}), claim("1", 0, HOUR))
    state = priced(world.book(), rate("2"))
    books = cost.ledger(world.store, state, Window(us(0), us(HOUR)))
    assert (None, None) == (books.funnel["effective"].gpu_seconds, books.funnel["active"].gpu_seconds)
    assert Decimal(108) == books.funnel["allocated"].gpu_seconds
    print(ledger_listing(books).extra["funnel"] if hasattr(ledger_listing(books), "extra") else "")
    print(as_table(funnel(books), 100))
