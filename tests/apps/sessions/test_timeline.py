"""The timeline is never rewritten."""

import pytest
from django.db import DatabaseError, connection

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("statement", ["UPDATE", "DELETE"])
def test_the_serving_role_cannot_rewrite_the_timeline(statement):
    sql = {
        "UPDATE": "UPDATE sessions_app_timelineentry SET detail = 'nothing happened'",
        "DELETE": "DELETE FROM sessions_app_timelineentry",
    }[statement]
    with pytest.raises(DatabaseError, match="permission denied"), connection.cursor() as cursor:
        cursor.execute(sql)
