"""The operator's own client against our internal listener: both sides read each other."""

import json
import threading
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.core.asgi import get_asgi_application

from cluster import services, tokens
from cluster.models import Card, Cluster
from cluster.operator.client import ControlPlane, Refused, TokenFile
from gshare_core.contract import CardRow, Inventory, NodeRow
from gshare_core.ids import uuid7
from tests.builders import a_cluster
from tests.cluster_acts import a_spec, release_connection, want

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("gshare_site.urls_internal"),
    pytest.mark.usefixtures("signing_keys"),
]


@pytest.fixture
def cluster():
    return a_cluster("demo", state="pending")


@pytest.fixture
def token_file(cluster, tmp_path):
    path = tmp_path / "token.json"
    tokens.write_file(path, services.issue_cluster_token(by=None, cluster_id=cluster.pk, scope="operator"))
    return TokenFile(path)


@pytest.fixture
async def control_plane(token_file):
    transport = httpx.ASGITransport(app=get_asgi_application())
    async with ControlPlane("http://testserver", token_file, transport) as client:
        yield client


async def test_it_reads_documents_and_tombstones(control_plane, cluster):
    kept, ended = uuid7(), uuid7()
    await sync_to_async(want)(cluster, a_spec(kept))
    await sync_to_async(want)(cluster, None, session=ended, run=1, generation=2)

    feed, bad = await control_plane.desired(0, 0)

    assert bad == ()
    assert [(each.session, each.spec is None, each.generation) for each in feed.documents] == [
        (kept, False, None),
        (ended, True, 2),
    ]
    assert feed.documents[0].spec == a_spec(kept)


async def test_a_beat_adopts_what_it_lists(control_plane, cluster):
    now = datetime.now(UTC)
    card = CardRow(uuid="GPU-1", index=0, model="NVIDIA A100-SXM4-80GB", vram_mib=81_920, slots=10)
    node = NodeRow(name="gpu-01", ready=True, cpu_milli=1_000, memory_mib=1_024, scratch_gib=1, cards=(card,))

    await control_plane.inventory(Inventory(observed_at=now, sent_at=now, nodes=(node,)))

    assert await sync_to_async(Card.objects.filter(uuid="GPU-1", node__cluster=cluster).exists)()
    assert (await Cluster.objects.aget()).state == "connected"


async def test_it_renews_its_token_and_writes_it_back(control_plane, token_file, cluster):
    before = token_file.read()

    assert await control_plane.renew_when_due(clock_after(hours=13))

    after = token_file.read()
    assert after.token != before.token
    assert after.cluster_key == before.cluster_key == tokens.cluster_key(cluster.pk).hex()
    assert json.loads(token_file.path.read_text())["cluster"] == str(cluster.pk)


async def test_a_revoked_token_is_refused(control_plane, cluster):
    await sync_to_async(services.revoke_tokens)(by=None, cluster_id=cluster.pk)

    with pytest.raises(Refused) as refused:
        await control_plane.desired(0, 0)

    assert refused.value.status == 401


async def test_a_long_poll_is_answered_by_a_commit_elsewhere(control_plane, cluster):
    first, second = uuid7(), uuid7()
    await sync_to_async(want)(cluster, a_spec(first))
    after = (await control_plane.desired(0, 0))[0].seq

    def write():
        want(cluster, a_spec(second))
        release_connection()

    thread = threading.Thread(target=write)
    thread.start()
    feed, _bad = await control_plane.desired(after, 20)
    thread.join()

    assert [each.session for each in feed.documents] == [second]


def clock_after(*, hours):
    return datetime.now(UTC) + timedelta(hours=hours)
