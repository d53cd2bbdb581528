"""How a test in Python waits: for a condition, with a deadline. Nothing else in tests/ may pause (house/rules: sleeps).

within() looks until a condition holds; lib.until() does and fails the test when it does not. Two pauses wait for nothing, and say so
by their names: let_it_run() is a time that a program under test is to run or to be away, or that has to pass because the test is about
time; pace() is the speed of a workload, of a slow client or of a measurement, between two of its actions."""
import time


def within(seconds, what, every=0.05):
    """The value of what() once it is true; its last value when it is not within so many seconds."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value or time.monotonic() >= end:
            return value
        time.sleep(every)


def let_it_run(seconds):
    time.sleep(seconds)


def pace(seconds):
    time.sleep(seconds)
