"""The placement bench: it measures what it says, and a wrong answer fails it."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from cluster.domain.placement import Fleet, NoPlace, Placement
from gshare_site.benches import Figure, WrongAnswer, benches, percentile, placement
from gshare_site.benches.openb import MIXES, Referee, Row, describe, mixed, read_nodes, read_requests

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,65536,2,T4\nn1,32000,65536,4,A10\nn2,64000,131072,8,A10\n"
REQUESTS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
half,2000,4096,1,500,,LS
most,2000,4096,1,810,T4|A10,LS
little,1000,1024,1,190,T4,LS
whole,4000,4096,1,1000,,BE
four,8000,8192,4,1000,,BE
none,4000,4096,0,0,,BE
"""


@pytest.fixture
def trace(tmp_path):
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES, encoding="utf-8")
    (tmp_path / "openb_pod_list_default.csv").write_text(REQUESTS, encoding="utf-8")
    return tmp_path


def run(*arguments):
    out = StringIO()
    call_command("bench", "placement", *arguments, stdout=out)
    return out.getvalue()


def test_the_bench_prints_json_lines_with_machine_figures_and_what_was_verified(trace):
    lines = [
        json.loads(line) for line in run("--trace", str(trace), "--seeds=2", "--churn-seeds=1", "--json").splitlines()
    ]
    assert lines[0]["machine"]["cores"] >= 1
    figures = {line["figure"]: line for line in lines[1:]}
    for policy in ("best_fit", "spread", "least_fragmentation"):
        filled = figures[f"{policy}: cards allocated at 130 % arrivals"]
        assert 50 < filled["value"] <= 100
        assert filled["runs"] == 2
        assert "placements legal" in filled["verified"]
        assert figures[f"{policy}: cards allocated under churn at 115 %"]["value"] > 0
        assert figures[f"{policy}: decision p99"]["better"] == "less"


def test_the_same_seeds_give_the_same_figures(trace):
    arguments = ("--trace", str(trace), "--seeds=2", "--churn-seeds=1", "--policy=least_fragmentation", "--json")
    one, other = ([line for line in run(*arguments).splitlines() if "cards allocated" in line] for _ in range(2))
    assert one == other
    assert one


def test_without_a_trace_or_with_another_directory_the_bench_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("GSHARE_TRACE_DIR", raising=False)
    with pytest.raises(CommandError, match="--trace"):
        run()
    with pytest.raises(CommandError, match="openb_node_list_gpu_node"):
        run("--trace", str(tmp_path))


def test_strict_exits_with_the_names_of_missed_bars(trace, monkeypatch):
    monkeypatch.setitem(placement.BARS, ("best_fit", "filled", 100), 100.5)
    arguments = ("--trace", str(trace), "--seeds=1", "--churn-seeds=0", "--policy=best_fit")
    assert "MISSED" in run(*arguments)
    with pytest.raises(CommandError, match="best_fit: cards allocated at 100"):
        run(*arguments, "--strict")


def test_the_placement_bench_is_found_by_its_name():
    assert "placement" in benches()


@pytest.mark.parametrize("mix", MIXES)
def test_mixes_are_the_same_at_every_call_and_keep_their_promise(trace, mix):
    nodes, rows = read_nodes(trace), read_requests(trace / "openb_pod_list_default.csv") * 20
    made = mixed(rows, mix, nodes)
    assert made == mixed(rows, mix, nodes)
    said = describe(made)
    expected = {
        "default": said["requests"] == len(rows),
        "sharing": said["shared_percent"] == 100,
        "constrained": said["constrained_percent"] > describe(rows)["constrained_percent"],
        "several": said["several_percent"] >= describe(rows)["several_percent"],
        "cpu": said["without_card"] == 3 * describe(rows)["without_card"],
    }
    assert expected[mix]


def a_row(**fields):
    return Row(
        **({"name": "r", "cpu_milli": 1_000, "memory_mib": 1_024, "cards": 1, "milli": 600, "models": ()} | fields)
    )


@pytest.mark.parametrize(
    ("row", "node", "cards"),
    [
        (a_row(milli=500), "n1", ["n1/0"]),  # 0.6 of it is taken
        (a_row(milli=1_000), "n1", ["n1/0"]),
        (a_row(models=("T4",)), "n1", ["n1/1"]),
        (a_row(cards=2), "n1", ["n1/1"]),
        (a_row(cards=2), "n1", ["n1/1", "n1/1"]),
        (a_row(cpu_milli=40_000), "n1", ["n1/1"]),
        (a_row(memory_mib=100_000), "n1", ["n1/1"]),
        (a_row(cards=0), "n1", ["n1/1"]),
    ],
)
def test_the_referee_finds_an_illegal_placement(trace, row, node, cards):
    referee = Referee(read_nodes(trace))
    referee.took(a_row(), Placement("n1", ("n1/0",), a_row().request()))
    with pytest.raises(WrongAnswer):
        referee.took(row, Placement(node, tuple(cards), row.request()))


def test_the_referee_finds_a_refusal_of_what_fits(trace):
    referee = Referee(read_nodes(trace))
    with pytest.raises(WrongAnswer, match="room"):
        referee.refuses(a_row())
    referee.refuses(a_row(cards=9))
    assert referee.refused == 1


class Forgetful(Fleet):
    """An engine that never takes what it gave."""

    def claim(self, placement):
        pass


class Stingy(Fleet):
    """An engine that refuses everything."""

    def place(self, request):
        return NoPlace("not_now", (), "No.")


@pytest.mark.parametrize(("engine", "complaint"), [(Forgetful, "over-commits"), (Stingy, "has room")])
def test_a_wrong_engine_fails_the_bench(trace, engine, complaint):
    nodes, rows = read_nodes(trace), read_requests(trace / "openb_pod_list_default.csv")
    trial = placement.Trial(nodes, "best_fit")
    trial.fleet = engine(nodes, policy="best_fit")
    with pytest.raises(WrongAnswer, match=complaint):
        placement.fill(trial, rows, 0, placement.Sums())


@pytest.mark.parametrize(("percent", "expected"), [(50, 5), (99, 10), (1, 1), (10, 1), (11, 2)])
def test_percentiles_are_values_that_were_measured(percent, expected):
    assert percentile(range(1, 11), percent) == expected


def test_a_figure_meets_its_bar_from_the_right_side():
    assert Figure("f", 2, "%", "v", bar=2).meets_bar
    assert not Figure("f", 1, "%", "v", bar=2).meets_bar
    assert Figure("f", 1, "ms", "v", bar=2, better="less").meets_bar
    assert "MISSED" in Figure("f", 3, "ms", "v", bar=2, better="less").as_text()
