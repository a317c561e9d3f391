"""Takes up what is promoted, without a request being lost, and keeps what is good."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from threading import Event, Lock, Thread
from typing import Any

import structlog

from colltune import registry
from colltune.domain import Shape
from colltune.errors import ColltuneError, say
from colltune.models.bundle import insist_answers
from colltune.models.guard import Guard
from colltune.mpi.programs import Programs
from colltune.selector.configuration import Target
from colltune.selector.demand import Demand, read_demand
from colltune.server.answers import Answer, Answers, Lru, answer_bytes
from colltune.server.errors import ServiceError
from colltune.server.metrics import Metrics
from colltune.server.settings import ServiceSettings
from colltune.server.state import LoadedBundle, ServiceState, Source, Trial

_REPORTS = ("drift", "retrain", "verify")
_REPORTS_S = 15.0
"""Between looks at what was reported to the registry."""
_STOP_S = 5.0
_FIRST_LOOK_S = 10.0
_AGAIN_S = 30.0
"""After which a bundle that was refused is looked at again."""
_MOST_AGAIN, _PATIENCE_S = 64, 3.0
_MOST_SHAPES = 256


class BundleWatcher:
    """Looks at a source of bundles from time to time, in its own thread.

    ``dropped`` is called with every answer that is no longer kept; ``render`` makes ahead what a
    job will ask for.
    """

    def __init__(
        self,
        source: Source,
        settings: ServiceSettings,
        metrics: Metrics,
        dropped: Callable[[Answer], None],
        render: Callable[[ServiceState, Demand], object],
    ) -> None:
        self._source = source
        self._settings = settings
        self._metrics = metrics
        self._dropped = dropped
        self._render = render
        self._rendered_for: ServiceState | None = None
        self._to_render: Iterator[Demand] = iter(())
        self._log = structlog.get_logger()
        self._refused: dict[tuple[str, str], float] = {}
        self._ended = Event()
        self._looked = Event()
        self._lock = Lock()
        self._thread: Thread | None = None
        self.reachable = False
        self.looked_at = time.monotonic()
        self.unreachable_why = "the registry has not been read yet"
        self.reports: Mapping[str, tuple[str, Mapping[str, Any]] | None] = {}
        self.retrained_at: float | None = None
        self.arrived: int | None = None
        self._reports_at = -math.inf
        self.state = ServiceState({}, self._answers())

    def _answers(self) -> Answers:
        settings = self._settings
        return Lru(settings.cache_entries, settings.cache_bytes, answer_bytes, self._dropped)

    def start(self) -> None:
        self._ended.clear()
        self._thread = Thread(target=self._watch, name="watcher", daemon=True)
        self._thread.start()

    def await_first_look(self) -> None:
        """Wait until the source was looked at once, or hangs."""
        self._looked.wait(_FIRST_LOOK_S)

    def stop(self) -> None:
        """Stop looking; waits for a look that is under way, unless it hangs."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                try:
                    self.refresh()
                finally:
                    self._looked.set()
                deadline = time.monotonic() + self._settings.poll_s
                while not self._ended.is_set() and time.monotonic() < deadline:
                    if not self._render_next(self.state):
                        break
            except Exception:
                self._log.exception("the registry could not be read")
            self._ended.wait(self._settings.poll_s)

    def _render_next(self, state: ServiceState) -> bool:
        """Render the next shape that jobs ask for, most often first; tell whether there was one."""
        if self._rendered_for is None or self._rendered_for.loaded != state.loaded:
            self._rendered_for, self._to_render = state, islice(self._demand(), _MOST_SHAPES)
        asked = next(self._to_render, None)
        if asked is None:
            return False
        try:
            self._render(state, asked)
        except (ColltuneError, ServiceError) as error:
            shape = f"{asked.library} {asked.release} {Shape(asked.nodes, asked.ppn)}"
            self._log.debug("nothing to render ahead", shape=shape, why=str(error))
        return True

    def _demand(self) -> Iterator[Demand]:
        folder = self._settings.demand
        if folder is not None and folder.is_dir():
            try:
                yield from read_demand(folder)
            except ColltuneError as error:
                self._log.warning("the requests of jobs cannot be read", why=str(error))

    def refresh(self) -> None:
        with self._lock:
            try:
                wanted = self._source.current()
                on_trial = self._source.trials() if self._settings.production else {}
            except (ColltuneError, OSError) as error:
                self._unreachable(str(error))
                return
            finally:
                self.looked_at = time.monotonic()
            if not self.reachable:
                self._log.info("registry is there", slots=sorted(wanted))
            self.reachable, self.unreachable_why = True, ""
            self._take_up(wanted, on_trial)
            self._look_at_reports()

    def _look_at_reports(self) -> None:
        if time.monotonic() - self._reports_at < _REPORTS_S:
            return
        self._reports_at = time.monotonic()
        try:
            self.reports = {kind: self._source.dated_report(kind) for kind in _REPORTS}
            age_s = self._source.retraining_age_s()
            self.retrained_at = None if age_s is None else time.time() - age_s
            self.arrived = self._arrivals()
        except (ColltuneError, OSError, ValueError) as error:
            self._log.warning("reports cannot be read", why=str(error))

    def _arrivals(self) -> int | None:
        """Return how many files of measurements came in since the latest report on retraining."""
        if self._settings.data is None:
            return None
        at_utc = (self.reports["retrain"] or ("",))[0]
        since = datetime.fromisoformat(at_utc).timestamp() if at_utc else 0.0
        files = self._settings.data.glob("*.parquet")
        return sum(file.stat().st_mtime > since for file in files)

    def _unreachable(self, why: str) -> None:
        self._metrics.registry_errors.inc()
        if self.reachable or why != self.unreachable_why:
            kept = sorted(self.state.loaded)
            self._log.error(
                "the registry cannot be read; the loaded bundles stay", why=why, kept=kept
            )
        self.reachable, self.unreachable_why = False, why

    def _take_up(
        self, wanted: Mapping[str, registry.Event], on_trial: Mapping[str, registry.Event]
    ) -> None:
        loaded, problems = dict(self.state.loaded), dict(self.state.problems)
        for slot, event in wanted.items():
            have = loaded.get(slot)
            if have is not None and have.bundle.id == event.bundle_id:
                problems.pop(slot, None)
                continue
            refused_at = self._refused.get((slot, event.bundle_id), -math.inf)
            if time.monotonic() - refused_at <= _AGAIN_S:
                continue
            try:
                loaded[slot] = self._loaded(slot, event)
                problems.pop(slot, None)
            except Exception as error:
                problems[slot] = self._refuse(slot, event.bundle_id, error, have)
        for slot in loaded.keys() - wanted.keys():
            problems[slot] = self._withdrawn(slot, loaded[slot])
        trials = self._trials(on_trial)
        if loaded != self.state.loaded:
            new = ServiceState(loaded, self._answers(), problems, trials)
            _carry_over(self.state, new)
            self.state = new
        elif (problems, trials) != (self.state.problems, self.state.trials):
            self.state = ServiceState(loaded, self.state.answers, problems, trials)

    def _trials(self, on_trial: Mapping[str, registry.Event]) -> dict[str, Trial]:
        """Return the trials whose bundles can be loaded; jobs of others get what is in force."""
        found: dict[str, Trial] = {}
        for slot, event in on_trial.items():
            have = self.state.trials.get(slot)
            refused_at = self._refused.get((slot, event.bundle_id), -math.inf)
            if have is not None and have.loaded.bundle.id == event.bundle_id:
                found[slot] = Trial(have.loaded, event.share or 0.0)
            elif time.monotonic() - refused_at > _AGAIN_S:
                try:
                    found[slot] = Trial(self._loaded(slot, event), event.share or 0.0)
                except Exception as error:
                    self._refuse(slot, event.bundle_id, error, None)
        return found

    def _withdrawn(self, slot: str, have: LoadedBundle) -> str:
        what = (
            f"{slot}: no bundle is in force any more; the bundle {have.bundle.id[:12]} stays loaded"
        )
        if self.state.problems.get(slot) != what:
            self._log.warning("no bundle is in force", slot=slot, kept=have.bundle.id)
        return what

    def _loaded(self, slot: str, event: registry.Event) -> LoadedBundle:
        started = time.monotonic()
        loaded = LoadedBundle(self._source.load(event.bundle_id), event.at_utc)
        if loaded.slot != slot:
            raise say("bundle-of-another-slot", slot=slot, loaded=loaded.slot)
        insist_answers(loaded.bundle)
        programs = Programs.parse(self._settings.programs)
        _prepare(loaded, Guard(caution=self._settings.caution), programs)
        self._refused.pop((slot, event.bundle_id), None)
        self._metrics.loads.labels(slot).inc()
        seconds = round(time.monotonic() - started, 3)
        self._log.info("bundle loaded", slot=slot, bundle=event.bundle_id, seconds=seconds)
        return loaded

    def _refuse(
        self, slot: str, bundle_id: str, error: Exception, have: LoadedBundle | None
    ) -> str:
        self._refused[slot, bundle_id] = time.monotonic()
        self._metrics.refusals.labels(slot).inc()
        known = isinstance(error, (ColltuneError, OSError))
        why = str(error) if known else f"{type(error).__name__}: {error}"
        kept = have.bundle.id if have else None
        self._log.error("bundle refused", slot=slot, bundle=bundle_id, why=why, kept=kept)
        return f"{slot}: the bundle {bundle_id[:12]} was refused: {why}"


def _prepare(loaded: LoadedBundle, guard: Guard, programs: Programs) -> None:
    """Make one configuration, so that catalogues are read and the first client does not wait."""
    context = loaded.bundle.context
    try:
        target = Target.named(context.library, context.library_version, programs=programs)
        # what rests on other machines alone has no shapes of its own
        loaded.rendering(max(loaded.bundle.training_shapes, default=Shape(2, 1)), target, guard)
    except ColltuneError as error:
        # a library without files still has selections
        structlog.get_logger().info("no configuration", slot=loaded.slot, why=str(error))


def _carry_over(old: ServiceState, new: ServiceState) -> None:
    """Put the answers that `old` gave last into `new`, so that clients need not wait for them.

    What the same bundle gives is taken over; the rest is computed, for a few seconds at most.
    """
    ids = {loaded.bundle.id for loaded in new.loaded.values()}
    same_slots = old.loaded.keys() == new.loaded.keys()
    deadline = time.monotonic() + _PATIENCE_S
    left = _MOST_AGAIN
    ready: list[tuple[tuple[str, bytes], Answer]] = []
    for key, answer in reversed(old.answers.items()):
        if same_slots and answer.document.bundle_id in ids:
            ready.append((key, answer))
        elif answer.recipe is not None and left and time.monotonic() < deadline:
            left -= 1
            compute, arguments = answer.recipe
            try:
                again = Answer(compute(new, *arguments), answer.route, answer.recipe)
            except Exception as error:
                # whoever asks next is told
                structlog.get_logger().debug("an answer is no more", why=str(error))
            else:
                ready.append((key, again))
    for key, answer in reversed(ready):
        new.answers.put(key, answer)
