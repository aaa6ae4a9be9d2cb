"""Tables of cases: one test walks all of them and reports each that fails."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from memdb.models import types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# As many failures as a reader looks at; the number of all is told.
MOST_SHOWN = 20


def each(
    names: str | Sequence[str], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """
    Let one test run once for each case: a `parametrize` that costs one set of fixtures.

    All cases get the same fixtures, so a case may not depend on the state that another
    one leaves. A case that fails does not keep the others from running.

    Args:
        names: The parameters of the test that a case gives, separated by commas.
        cases: A value for each case, or a tuple of them if there are several names;
            `pytest.param` gives a case an id.
    """
    fields = names.split(",") if isinstance(names, str) else [*names]
    fields = [name.strip() for name in fields]
    table = [*cases]
    assert not any(getattr(case, "marks", ()) for case in table), "a case of `each` has no marks"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def walk(**fixtures: Any) -> None:
            __tracebackhide__ = True
            found = [_run(test, fixtures, fields, case) for case in table]
            failures = [failure for failure in found if failure]
            if failures or not table:
                shown = "\n\n".join(failures[:MOST_SHOWN])
                pytest.fail(f"{len(failures)} of {len(table)} cases fail\n\n{shown}", pytrace=False)

        signature = inspect.signature(test)
        given = [one for name, one in signature.parameters.items() if name not in fields]
        walk.__signature__ = signature.replace(parameters=given)
        return walk

    return decorate


def _run(
    test: Callable[..., None], fixtures: dict[str, Any], fields: list[str], case: Any
) -> str | None:
    """Return how a case failed; None if it did not, or was skipped."""
    values = getattr(case, "values", case) if hasattr(case, "marks") else case
    if len(fields) == 1 and not hasattr(case, "marks"):
        values = (case,)
    name = getattr(case, "id", None) or ", ".join(map(_shown, values))
    try:
        test(**fixtures, **dict(zip(fields, values, strict=True)))
    except pytest.skip.Exception:
        return None
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 (told with all others)
        info = pytest.ExceptionInfo.from_exception(error)
        return f"case {name}\n{info.getrepr(style='short')}"
    return None


def _shown(value: object) -> str:
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) < 60 else f"{text[:60]}..."


def arguments_of(call: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a call by name, those of `**options` too."""
    found = dict(inspect.signature(call).parameters)
    for one in [*found.values()]:
        named = getattr(types, str(one.annotation)[len("Unpack[") : -1], None)
        if one.kind is one.VAR_KEYWORD and named is not None:
            del found[one.name]
            found |= {
                name: one.replace(name=name, kind=one.KEYWORD_ONLY, annotation=of.__forward_arg__)
                for name, of in named.__annotations__.items()
            }
    return found
