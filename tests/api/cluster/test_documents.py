"""What the API answers has exactly the fields that its OpenAPI document names."""

import pytest
from drf_spectacular.generators import SchemaGenerator

from cluster import services, tokens
from cluster.api import answers, documents
from cluster.models import ModeChange, PoolGrant, VolumeShare
from gshare_core.kit import clock
from tests.builders import LONG_AGO, a_cluster, a_group, a_node, a_user

pytestmark = pytest.mark.django_db


def test_every_answer_has_the_fields_that_it_promises(signing_keys):
    cluster, group = a_cluster(), a_group()
    node, alice = a_node(cluster, cards=[{}]), a_user(group)
    ModeChange.objects.create(node=node, target="mig", asked_at=LONG_AGO, stepped_at=LONG_AGO)
    grant = PoolGrant.objects.create(pool=node.pool, group=group)
    volume = services.create_volume(by=alice, wish=services.VolumeWish("data", "data", "rwo", 1, cluster.pk))
    share = VolumeShare.objects.create(volume=volume, user=a_user(group), mode="ro", created_at=LONG_AGO)
    made = {
        answers.ClusterAnswer: documents.cluster(cluster, whole=True),
        answers.NodeAnswer: documents.node(documents.nodes().get(pk=node.pk)),
        answers.CardAnswer: documents.card(documents.cards().get()),
        answers.PoolAnswer: documents.pool(node.pool, [grant], [str(node.pk)]),
        answers.PoolGrantAnswer: documents.grant(grant),
        answers.VolumeAnswer: documents.volume(volume, mode="rw", in_use=False),
        answers.VolumeShareAnswer: documents.share(share),
        answers.TokenAnswer: tokens.issue(cluster, "operator", at=clock.now()).as_dict(),
    }

    for answer, document in made.items():
        assert_same_fields(answer(), document)


def assert_same_fields(answer, document):
    assert set(answer.fields) == set(document), type(answer).__name__
    for name, field in answer.fields.items():
        if hasattr(field, "fields") and document[name] is not None:
            assert_same_fields(field, document[name])


def test_the_schema_names_every_call_of_this_room_once():
    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    own = ("/clusters", "/nodes", "/pools", "/volumes")
    called = [
        call["operationId"] for path, calls in paths.items() if any(o in path for o in own) for call in calls.values()
    ]

    assert len(called) == len(set(called))
    assert {"register_cluster", "list_cards", "grant_pool", "restore_volume", "end_volume_share"} <= set(called)
