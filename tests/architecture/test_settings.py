"""The environment is parsed once, typed, and says what is wrong by name."""

from datetime import timedelta
from pathlib import Path

import pytest

from gshare_site.config import Config, format_duration, parse_duration
from gshare_site.environment import ConfigError, load


def test_an_empty_environment_gives_the_defaults_of_the_design() -> None:
    config = load({})
    assert config.hold_window == timedelta(minutes=60)
    assert config.grace == timedelta(minutes=10)
    assert config.public_url == "http://localhost:8000"
    assert config.internal_bind == "127.0.0.1:8001"
    assert config.internal_url == "http://127.0.0.1:8001"
    assert config.session_origin("abc") == "http://abc.localhost:8000"


def test_the_port_moves_the_addresses_that_follow_from_it() -> None:
    config = load({"GSHARE_PORT": "9100"})
    assert (config.public_url, config.internal_bind) == ("http://localhost:9100", "127.0.0.1:9101")


def test_an_unknown_name_stops_the_start_and_suggests_the_right_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting GSHARE_HOLD_WINDOWS \(did you mean GSHARE_HOLD_WINDOW\?\)"):
        load({"GSHARE_HOLD_WINDOWS": "5m"})


def test_a_malformed_value_stops_the_start_with_its_name_and_never_its_value() -> None:
    with pytest.raises(ConfigError, match="GSHARE_HOLD_WINDOW: expected a duration") as caught:
        load({"GSHARE_HOLD_WINDOW": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_several_faults_are_named_together() -> None:
    with pytest.raises(ConfigError) as caught:
        load({"GSHARE_PORT": "many", "GSHARE_TIME_ZONE": "Mars/Olympus", "GSHARE_SECRET_KEY": "short"})
    assert all(name in str(caught.value) for name in ("GSHARE_PORT", "GSHARE_TIME_ZONE", "GSHARE_SECRET_KEY"))
    assert "short" not in str(caught.value).replace("shorter", "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GSHARE_PORT", "tcp://10.96.0.17:80"),
        ("GSHARE_WEB_SERVICE_HOST", "10.96.0.17"),
        ("GSHARE_WEB_SERVICE_PORT", "80"),
        ("GSHARE_WEB_SERVICE_PORT_HTTP", "80"),
        ("GSHARE_WEB_PORT", "tcp://10.96.0.17:80"),
        ("GSHARE_WEB_PORT_80_TCP", "tcp://10.96.0.17:80"),
        ("GSHARE_WEB_PORT_80_TCP_ADDR", "10.96.0.17"),
        ("GSHARE_SERVICE_HOST", "10.96.0.17"),
        ("GSHARE_PORT_53_UDP", "udp://10.96.0.17:53"),
        ("GSHARE_PORT_53_UDP_PROTO", "udp"),
    ],
)
def test_a_variable_that_kubernetes_injects_for_a_service_named_like_us_does_not_stop_the_start(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        assert load({name: value}).port == 8000
    assert any(name in record.getMessage() for record in caplog.records)


def test_names_of_our_other_processes_are_known() -> None:
    foreign = {"GSHARE_KUBECONFIG_LAB": "/x", "GSHARE_OPERATOR_TOKEN_FILE": "/x", "GSHARE_HAMI_SCHEDULER": "/x"}
    assert load(foreign) == load({})


def test_a_file_gives_a_secret(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 40 + "\n")
    config = load({"GSHARE_SECRET_KEY_FILE": str(secret)})
    assert config.secret_key.get_secret_value() == "s" * 40
    assert "s" * 40 not in repr(config)


def test_a_file_that_cannot_be_read_is_named_by_its_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="GSHARE_SECRET_KEY_FILE: cannot read"):
        load({"GSHARE_SECRET_KEY_FILE": str(tmp_path / "nothing")})


def test_a_value_and_a_file_for_the_same_setting_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="GSHARE_SECRET_KEY and GSHARE_SECRET_KEY_FILE"):
        load({"GSHARE_SECRET_KEY": "x" * 40, "GSHARE_SECRET_KEY_FILE": str(tmp_path)})


def test_the_environment_wins_over_the_file_of_the_checkout_and_both_are_scanned(tmp_path: Path) -> None:
    env_file = tmp_path / ".env"
    env_file.write_text("GSHARE_PORT=9000\nGSHARE_TIME_ZONE=Asia/Seoul\n")
    config = load({"GSHARE_PORT": "9001"}, env_file)
    assert (config.port, config.time_zone) == (9001, "Asia/Seoul")
    env_file.write_text("GSHARE_PROT=9000\n")
    with pytest.raises(ConfigError, match="GSHARE_PROT"):
        load({}, env_file)


@pytest.mark.parametrize("text", ["90s", "10m", "24h", "7d", "1500ms"])
def test_durations_survive_being_written_and_read(text: str) -> None:
    assert format_duration(parse_duration(text)) == text


def test_every_setting_says_what_it_means() -> None:
    assert [name for name, field in Config.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(("pool", "asked", "abreast"), [(16, 4, 4), (16, 40, 8), (4, 4, 2), (1, 4, 1), (0, 40, 40)])
def test_admissions_never_take_more_than_half_of_the_connections(pool, asked, abreast):
    config = Config(database_pool_max=pool, admissions_max=asked)
    assert config.admissions_abreast == abreast
