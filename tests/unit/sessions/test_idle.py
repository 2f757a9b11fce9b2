"""When a session is idle: every source, every absurdity, every reset, as a table; and what holds for any history."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gshare_core.contract import Activity, AppUse, GpuSource, GpuUse
from sessions_app.domain import idle
from sessions_app.domain.idle import Bounds, Circumstances, Gap, Memory, State, fold, fold_usage, judge

NOON = datetime(2026, 10, 14, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
CARD = 81_559


def at(minutes: float) -> datetime:
    """So many minutes after noon, when the session came up."""
    return NOON + minutes * MINUTE


def gpu(source: str = "hami", **fields: Any) -> GpuUse:
    return GpuUse(source=GpuSource(source), **({"healthy": True, "present": True} | fields))


NEVER_USED = gpu(present=False)


def app(name: str = "lab", active: float | None = None, **fields: Any) -> AppUse:
    return AppUse(app=name, last_activity_at=None if active is None else at(active), **fields)


def sample(
    minute: float, *, cpu_s: float | None = 0, gpu: GpuUse | None = NEVER_USED, apps: tuple[AppUse, ...] = (app(),)
):
    return Activity(at=at(minute), cpu_usec=None if cpu_s is None else int(cpu_s * 1_000_000), gpu=gpu, apps=apps)


def what(**fields: Any) -> Circumstances:
    return Circumstances(**({"running_since": NOON, "has_gpu": True, "cpu_milli": 4_000, "timeout": HOUR} | fields))


def remembered(*samples: Activity, window: timedelta = HOUR, received: float | None = None) -> Memory:
    memory = Memory()
    for one in samples:
        now = one.at if received is None else at(received)
        memory = fold(memory, one, Bounds(NOON - MINUTE, now, CARD), window=window)
    return memory


def every(minutes: int, until: int, **fields: Any) -> list[Activity]:
    return [sample(minute, **fields) for minute in range(0, until + 1, minutes)]


def verdict(memory: Memory, minute: float, **fields: Any):
    return judge(what(**fields), memory, at(minute))


def test_all_quiet_since_the_start_is_idle_since_the_start_and_pauses_after_the_window():
    found = verdict(remembered(*every(1, 61)), 61)
    assert (found.state, found.idle_since, found.pause_at) == (State.IDLE, NOON, at(60))


def test_without_a_policy_nothing_is_judged():
    assert verdict(remembered(*every(1, 61)), 61, timeout=None).state is State.OFF


GPU_CASES = {
    # what the last sample says at 12:50, and since when the GPU is quiet then (a state when it is not)
    "never used CUDA: no series while the monitor is healthy": (gpu(present=False), NOON),
    "the monitor is down": (gpu(healthy=False, present=False), State.UNKNOWN),
    "the monitor is down, whatever its last figures say": (gpu(healthy=False, use_percent=0.0), State.UNKNOWN),
    "a kernel at 12:20": (gpu(last_kernel_at=at(20), use_percent=0.0), at(20)),
    "a kernel at 12:20 counts although the percentage sticks": (gpu(last_kernel_at=at(20), use_percent=55.0), at(20)),
    "a kernel just now": (gpu(last_kernel_at=at(49.9)), State.IN_USE),
    "no kernel since before the run": (gpu(last_kernel_at=at(-600)), NOON),
    "a stamp of 1970 says nothing": (gpu(last_kernel_at=datetime(1970, 1, 1, tzinfo=UTC)), State.UNKNOWN),
    "nor does it cost the percentage": (gpu(last_kernel_at=datetime(1970, 1, 1, tzinfo=UTC), use_percent=0.0), NOON),
    "a series without figures": (gpu(), State.UNKNOWN),
    "not supported, NVML": (gpu(use_percent=-1.0), State.UNKNOWN),
    "not supported, DCGM 32 bit": (gpu(use_percent=2147483632.0), State.UNKNOWN),
    "not supported, DCGM 64 bit": (gpu(use_percent=140737488355330.0), State.UNKNOWN),
    "a slice at 0.4 % all along": (gpu("mig", use_percent=0.4), NOON),
    "a slice at 1 %": (gpu("mig", use_percent=1.0), State.IN_USE),
    "more than 100 % is use": (gpu("mig", use_percent=130.0), State.IN_USE),
    "a slice that DCGM does not list": (gpu("mig", present=False), State.UNKNOWN),
    "a whole card that DCGM does not list": (gpu("dcgm", present=False), State.UNKNOWN),
    "a whole card at rest all along": (gpu("dcgm", use_percent=0.0), NOON),
    "NVML lists no process of it": (gpu("nvml", present=False), NOON),
    "declared at rest": (gpu("declared", use_percent=0.0), NOON),
}


@pytest.mark.parametrize("name", GPU_CASES)
def test_the_gpu_is_judged_by_what_its_source_can_know(name: str):
    said, expected = GPU_CASES[name]
    found = verdict(remembered(*every(1, 50, gpu=said)), 50)
    if isinstance(expected, State):
        assert (found.state, found.pause_at) == (expected, None)
    else:
        assert (found.state, found.idle_since) == (State.IDLE, expected)


@pytest.mark.parametrize(
    "absurd",
    [
        gpu(use_percent=0.0, vram_mib=17 * 1024.0 * 1024),  # 17 TB [HAMi 1181]
        gpu(use_percent=99.0, vram_mib=-1.0),
        gpu(last_kernel_at=at(500)),
        gpu(use_percent=50.0, last_kernel_at=at(500)),
    ],
)
def test_an_absurd_sample_of_the_gpu_is_dropped_and_the_one_before_stands_while_it_is_fresh(absurd: GpuUse):
    quiet = every(1, 50, gpu=gpu("hami", last_kernel_at=at(20)))
    memory = remembered(*quiet, sample(51, gpu=absurd))
    assert verdict(memory, 51).idle_since == at(20)
    later = remembered(*quiet, *(sample(minute, gpu=absurd) for minute in (51, 52, 53)))
    assert verdict(later, 53).state is State.UNKNOWN, "what only ever says absurd things says nothing"


def test_a_percentage_says_nothing_of_the_time_in_which_nobody_measured():
    rest = gpu("dcgm", use_percent=0.0)
    away = gpu("dcgm", healthy=False)
    memory = remembered(
        *(sample(minute, gpu=rest) for minute in range(31)),
        *(sample(minute, gpu=away) for minute in range(31, 41)),
        *(sample(minute, gpu=rest) for minute in range(41, 51)),
    )
    assert verdict(memory, 50).idle_since == at(41)


def test_a_kernels_stamp_covers_the_time_in_which_nobody_measured():
    memory = remembered(
        sample(10, gpu=gpu(last_kernel_at=at(9))),
        sample(30, gpu=gpu(healthy=False)),
        sample(50, gpu=gpu(last_kernel_at=at(9))),
    )
    assert verdict(memory, 50).idle_since == at(9)


def test_a_series_that_ends_with_its_process_leaves_its_last_kernel_behind():
    memory = remembered(sample(30, gpu=gpu(last_kernel_at=at(29))), *every(1, 50)[31:])
    assert verdict(memory, 50).idle_since == at(29)


CPU_CASES = {
    # CPU seconds spent by minute (of 4 cores; 5 % of an hour are 720 s), and idle since when at 12:50 (None: in use)
    "none": ({}, NOON),
    "a burst below 5 % of what has passed": ({30: 590}, NOON),
    "a burst of more than 5 %": ({30: 720}, at(30)),
    "a long burst that has ended": ({20: 2_400}, at(20)),
    "still at it": ({49: 500, 50: 500}, None),
}


@pytest.mark.parametrize("name", CPU_CASES)
def test_the_cpu_is_judged_by_its_mean_over_the_window_as_share_of_the_request(name: str):
    bursts, expected = CPU_CASES[name]
    spent, samples = 0, []
    for minute in range(51):
        spent += bursts.get(minute, 0)
        samples.append(sample(minute, cpu_s=spent))
    found = verdict(remembered(*samples), 50)
    if expected is None:
        assert found.state is State.IN_USE
    else:
        assert (found.state, found.idle_since) == (State.IDLE, expected)


def test_a_steady_five_percent_is_never_idle_and_a_steady_four_always():
    def steady(percent: float):
        memory = remembered(*(sample(minute, cpu_s=minute * 60 * 4 * percent / 100) for minute in range(200)))
        return verdict(memory, 199)

    assert steady(4.0).pause_at == at(60)
    assert steady(5.0).state is State.IN_USE
    assert steady(6.0).state is State.IN_USE, "it does not even begin to count"


def test_a_busy_stretch_long_ago_ends_what_counts_as_quiet():
    spent, samples = 0, []
    for minute in range(300):
        spent += 240 if 20 <= minute < 30 else 0
        samples.append(sample(minute, cpu_s=spent))
    found = verdict(remembered(*samples, window=5 * HOUR), 299).idle_since
    assert at(29) <= found <= at(32), "as closely as five hours are remembered"


def test_a_counter_that_begins_anew_is_no_use_of_the_past():
    memory = remembered(
        *(sample(minute, cpu_s=5_000) for minute in range(10, 20)),
        *(sample(minute, cpu_s=1) for minute in range(20, 51)),
    )
    assert verdict(memory, 50).idle_since == at(10), "5,000 s were spent before the first reading"


def test_a_gap_in_the_readings_is_covered_by_the_counter():
    memory = remembered(sample(1), sample(50, cpu_s=10_000))
    assert verdict(memory, 50).state is State.IN_USE
    assert verdict(remembered(sample(1), sample(50, cpu_s=10)), 50).idle_since == NOON


def later_counter(minute: float, cpu_s: float, epoch: int = 7) -> Activity:
    """A reading of a counter that somebody began while the run was running."""
    return sample(minute, cpu_s=cpu_s).model_copy(update={"cpu_epoch": epoch})


def test_a_counter_that_began_later_says_nothing_of_the_time_before_it():
    readings = [later_counter(minute, 0) for minute in range(20, 51)]
    assert verdict(remembered(*readings), 50).evidence["cpu"]["quiet_since"] == "2026-10-14T12:20:00Z"
    alone = verdict(remembered(*every(1, 20, cpu_s=None), later_counter(21, 0)), 21)
    assert (alone.state, alone.evidence["cpu"]["state"]) == (State.UNKNOWN, "unknown"), "one reading is no measure"


def test_another_counter_begins_the_window_anew():
    readings = [later_counter(minute, 500) for minute in range(20, 41)]
    anew = [later_counter(minute, 0, epoch=8) for minute in range(41, 51)]
    assert verdict(remembered(*readings, *anew), 50).evidence["cpu"]["quiet_since"] == "2026-10-14T12:41:00Z"


def test_a_counter_of_the_whole_run_outranks_one_that_began_later_while_it_is_fresh():
    whole = [sample(minute, cpu_s=0) for minute in range(41)]
    assert verdict(remembered(*whole, later_counter(41, 900)), 41).idle_since == NOON
    taken_over = [later_counter(minute, 0) for minute in range(43, 51)]
    assert verdict(remembered(*whole, *taken_over), 50).evidence["cpu"]["quiet_since"] == "2026-10-14T12:43:00Z"
    back = [*whole, *taken_over, sample(51, cpu_s=0)]
    assert verdict(remembered(*back), 51).evidence["cpu"]["quiet_since"] == "2026-10-14T12:00:00Z"


def test_an_agents_reading_is_of_cpu_and_memory_alone():
    memory = remembered(*every(1, 20))
    agent = Activity(at=at(30), cpu_usec=9_000_000, memory_bytes=7)
    after = fold_usage(memory, agent, Bounds(NOON - MINUTE, at(30), CARD), window=HOUR)
    assert (after.at, after.apps, after.gpu_at) == (memory.at, memory.apps, memory.gpu_at)
    assert (after.cpu[-1], after.memory_bytes) == ((at(30), 9_000_000), 7)
    late = Activity(at=at(29), cpu_usec=1, memory_bytes=1)
    assert fold_usage(after, late, Bounds(NOON - MINUTE, at(30), CARD), window=HOUR) is after


def test_a_reading_without_memory_leaves_what_another_source_said_of_it():
    bounds = Bounds(NOON - MINUTE, at(31), CARD)
    agent = Activity(at=at(30), cpu_usec=9_000_000, memory_bytes=7)
    known = fold_usage(remembered(*every(1, 20)), agent, bounds, window=HOUR)
    for silent in (Activity(at=at(31), cpu_usec=9_100_000), Activity(at=at(31))):
        assert fold_usage(known, silent, bounds, window=HOUR).memory_bytes == 7


@pytest.mark.parametrize("usec", [-5, 2**63 - 1])
def test_an_absurd_counter_is_dropped(usec: int):
    memory = remembered(*every(1, 50))
    bad = sample(50.5).model_copy(update={"cpu_usec": usec})
    folded = fold(memory, bad, Bounds(NOON, at(50.5), CARD), window=HOUR)
    assert folded.cpu == memory.cpu


APP_CASES = {
    "never used": ((app(),), NOON),
    "a kernel's last activity": ((app(active=42),), at(42)),
    "a kernel that executes, whenever it began": ((app(active=3, busy=True),), State.IN_USE),
    "input in the terminal counts like a notebook": ((app(active=3), app("terminal", active=44)), at(44)),
    "VS Code counts like a notebook": ((app(active=3), app("code", active=41)), at(41)),
    "used just now": ((app(active=49.5),), State.IN_USE),
    "an application that does not answer": ((app(active=3), app("terminal", known=False)), State.UNKNOWN),
    "use is use although another does not answer": ((app(active=3, busy=True), app("code", known=False)), State.IN_USE),
    "nobody says anything": ((), State.UNKNOWN),
    "activity from the future is dropped": ((app(active=500),), NOON),
    "activity from before the run is dropped": ((app(active=-600),), NOON),
}


@pytest.mark.parametrize("name", APP_CASES)
def test_the_applications_are_judged_by_what_was_done_in_them(name: str):
    apps, expected = APP_CASES[name]
    found = verdict(remembered(*every(1, 50, apps=apps), received=50), 50)
    if isinstance(expected, State):
        assert (found.state, found.pause_at) == (expected, None)
    else:
        assert (found.state, found.idle_since) == (State.IDLE, expected)


def test_any_part_in_use_keeps_the_session_from_being_idle_and_the_latest_quiet_counts():
    memory = remembered(*every(1, 50, gpu=gpu(last_kernel_at=at(12)), apps=(app(active=33),)))
    found = verdict(memory, 50)
    assert (found.idle_since, found.pause_at) == (at(33), at(93))
    assert {name: part["state"] for name, part in found.evidence.items()} == {
        "gpu": "idle",
        "cpu": "idle",
        "apps": "idle",
    }
    assert found.evidence["gpu"]["quiet_since"] == "2026-10-14T12:12:00Z"


def test_a_session_without_a_gpu_is_judged_by_the_rest():
    found = verdict(remembered(*every(1, 50, gpu=None)), 50, has_gpu=False)
    assert found.state is State.IDLE
    assert "gpu" not in found.evidence


def test_samples_that_stopped_say_nothing_about_now():
    memory = remembered(*every(1, 50))
    assert verdict(memory, 51).state is State.IDLE
    assert verdict(memory, 53).state is State.UNKNOWN
    assert verdict(Memory(), 50).state is State.UNKNOWN


def test_start_and_resume_reset_the_clock():
    memory = remembered(*every(1, 90))
    found = verdict(memory, 90, running_since=at(80))
    assert (found.idle_since, found.pause_at) == (at(80), at(140))


def test_deaf_time_is_added_before_the_pause():
    gaps = (Gap(at(-30), at(10)), Gap(at(20), at(25)))
    assert verdict(remembered(*every(1, 50)), 50, deaf=gaps).pause_at == at(75)


def test_keep_alive_puts_the_pause_off_and_never_brings_it_nearer():
    memory = remembered(*every(1, 50))
    assert verdict(memory, 50, kept_until=at(170)).pause_at == at(170)
    assert verdict(memory, 50, kept_until=at(55)).pause_at == at(60)


def test_another_timeout_is_another_pause_at_once():
    memory = remembered(*every(1, 50))
    assert verdict(memory, 50, timeout=20 * MINUTE).pause_at == at(20)
    assert verdict(memory, 50, timeout=5 * HOUR).pause_at == at(300)


def test_older_doubled_and_future_samples_change_nothing():
    memory = remembered(*every(1, 50))
    bounds = Bounds(NOON, at(50), CARD)
    for late in (sample(20, cpu_s=9), sample(50, cpu_s=9), sample(70, cpu_s=9)):
        assert fold(memory, late, bounds, window=HOUR) == memory


def test_a_month_of_samples_is_kept_small_and_still_covers_the_window():
    memory = Memory()
    for minute in range(0, 31 * 24 * 60, 7):
        memory = fold(memory, sample(minute), Bounds(NOON, at(minute), CARD), window=24 * HOUR)
    assert len(memory.cpu) < 300
    newest = memory.cpu[-1][0]
    assert memory.cpu[0][0] <= newest - 24 * HOUR
    assert judge(what(timeout=24 * HOUR), memory, newest).pause_at <= newest


uses = st.lists(
    st.tuples(
        st.integers(1, 300),  # half minutes to the next sample
        st.floats(0, 400),  # CPU seconds in a minute, up to more than the request
        st.sampled_from(["rest", "kernel", "down", "absent", "absurd", "percent"]),
        st.booleans(),  # a kernel of Jupyter executes
    ),
    min_size=1,
    max_size=60,
)


@given(uses, st.integers(2, 240))
def test_whoever_is_due_was_measured_all_along_and_quiet_for_the_whole_window(steps, window_min: int):
    window, minute, cpu_s, memory = window_min * MINUTE, 0.0, 0.0, Memory()
    kernel, busy_at, last_app, bad_until = None, NOON, NOON, NOON
    for halves, rate, said, busy in steps:
        minute += halves / 2
        now = at(minute)
        cpu_s += rate * halves / 2
        if said == "kernel":
            kernel = busy_at = now
        last_app = now if busy else last_app
        figures = {
            "rest": gpu(last_kernel_at=kernel, use_percent=0.0),
            "kernel": gpu(last_kernel_at=kernel),
            "down": gpu(healthy=False),
            "absent": gpu(present=False),
            "absurd": gpu(vram_mib=1e9),
            "percent": gpu(use_percent=80.0),
        }[said]
        if said == "percent":
            busy_at = now
        if said == "down":
            bad_until = now
        one = sample(minute, cpu_s=cpu_s, gpu=figures, apps=(AppUse(app="lab", busy=busy),))
        memory = fold(memory, one, Bounds(NOON, now, CARD), window=window)
        found = judge(what(timeout=window), memory, now)
        if found.state is State.IDLE:
            assert found.idle_since is not None and NOON <= found.idle_since <= now
            assert found.pause_at == found.idle_since + window
            assert found.idle_since >= max(busy_at, last_app)
            assert bad_until < now, "a monitor that is down is never idle"
            if found.pause_at <= now:
                assert _spent_within(memory, now - window) < 0.05 * 4 * window.total_seconds()


def _spent_within(memory: Memory, start: datetime) -> float:
    """What was certainly spent since `start`: between the readings that lie within."""
    inside = [usec for moment, usec in memory.cpu if moment >= start]
    return (inside[-1] - inside[0]) / 1_000_000


def test_every_reason_why_something_is_unknown_is_counted():
    source = inspect.getsource(idle)
    assert set(re.findall(r'"why": "([a-z_]+)"', source)) - {"never_used"} == {why for _part, why in idle.UNKNOWN}
