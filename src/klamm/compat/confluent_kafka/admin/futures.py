"""Futures as confluent-kafka's admin returns them: one for each item, made of one for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from klamm import errors
from klamm.compat.confluent_kafka.error import KafkaError, KafkaException

K = TypeVar("K")
T = TypeVar("T")


def of_each(
    answered: Future[Any],
    asked: Mapping[K, Any],
    make: Callable[[Any], Any] = lambda _value: None,
) -> dict[K, Future[Any]]:
    """A future for each thing asked; `asked` has the key of its result in klamm's answer."""
    futures: dict[K, Future[Any]] = {item: Future() for item in asked}

    def done(answered: Future[Any]) -> None:
        failure = answered.exception()
        errors_of = {} if failure is not None else answered.result().errors
        for item, key in asked.items():
            error = failure or errors_of.get(key)
            if error is not None:
                futures[item].set_exception(as_theirs(error))
            else:
                _settle(futures[item], partial(make, answered.result()[key]))

    answered.add_done_callback(done)
    return futures


def then(answered: Future[Any], make: Callable[[Any], T]) -> Future[T]:
    """A future of what is made of an answer."""
    made: Future[T] = Future()

    def done(answered: Future[Any]) -> None:
        failure = answered.exception()
        if failure is not None:
            made.set_exception(as_theirs(failure))
        else:
            _settle(made, lambda: make(answered.result()))

    answered.add_done_callback(done)
    return made


def after(first: Future[Any], follow: Callable[[Any], Future[Any]]) -> Future[Any]:
    """A future of a second operation, which the answer of the first is needed for."""
    made: Future[Any] = Future()

    def settled(second: Future[Any]) -> None:
        failure = second.exception()
        if failure is not None:
            made.set_exception(as_theirs(failure))
        else:
            made.set_result(second.result())

    def done(first: Future[Any]) -> None:
        failure = first.exception()
        if failure is not None:
            made.set_exception(as_theirs(failure))
            return
        try:
            follow(first.result()).add_done_callback(settled)
        except Exception as error:
            made.set_exception(as_theirs(error))

    first.add_done_callback(done)
    return made


def as_theirs(error: BaseException) -> BaseException:
    """klamm's errors as KafkaException; others as they are."""
    if isinstance(error, errors.KlammError):
        made = KafkaException(KafkaError.of(error))
        made.__cause__ = error
        return made
    return error


def _settle(future: Future[Any], make: Callable[[], Any]) -> None:
    try:
        future.set_result(make())
    except Exception as error:
        future.set_exception(as_theirs(error))
