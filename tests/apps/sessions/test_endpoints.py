"""Where a cluster says that its applications listen is believed of local clusters, for loopback and our own folder."""

import pytest
from django.conf import settings

from cluster.models import Cluster
from sessions_app.models import Run

pytestmark = pytest.mark.django_db


def reported(world, **endpoints):
    session = world.run("L")
    world.report(session, "running", ready_at=world.time.now(), endpoints=endpoints)
    return Run.objects.get(session=session).endpoints


def test_a_local_cluster_names_loopback_ports_and_sockets_below_the_home(world):
    socket = f"unix:{settings.GSHARE.home}/operator/sockets/a/lab.sock"
    assert reported(world, lab=socket, terminal="127.0.0.1:4000") == {"lab": socket, "terminal": "127.0.0.1:4000"}


@pytest.mark.parametrize(
    "address", ["unix:/var/run/docker.sock", "10.0.0.1:80", "169.254.169.254:80", "127.0.0.1", "unix:lab.sock", ""]
)
def test_another_address_is_left_out_and_its_neighbour_kept(world, address):
    assert reported(world, lab=address, terminal="127.0.0.1:4000") == {"terminal": "127.0.0.1:4000"}


def test_a_socket_that_climbs_out_of_the_home_is_left_out(world):
    assert reported(world, lab=f"unix:{settings.GSHARE.home}/../elsewhere.sock") == {}


def test_a_cluster_elsewhere_cannot_lead_the_proxy_to_our_own_loopback(world):
    Cluster.objects.filter(pk=world.cluster.pk).update(kind="kube")
    assert reported(world, lab="127.0.0.1:8001") == {}
