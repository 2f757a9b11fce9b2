"""The address of PostgreSQL: what its options mean, and what is wrong with one that means nothing."""

import pytest

from gshare_site.environment import ConfigError
from gshare_site.services import database_settings


@pytest.mark.parametrize(
    ("query", "expected"), [("", 2), ("?prepare_threshold=7", 7), ("?prepare_threshold=off", None)]
)
def test_statements_are_prepared_as_the_address_says(query, expected):
    options = database_settings(f"postgresql://gshare@db.example/gshare{query}")["OPTIONS"]
    assert options["prepare_threshold"] == expected


def test_a_threshold_that_is_no_number_is_refused_by_name():
    with pytest.raises(ConfigError, match="GSHARE_DATABASE_URL: prepare_threshold"):
        database_settings("postgresql://gshare@db.example/gshare?prepare_threshold=often")
