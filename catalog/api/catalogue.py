"""`/api/v1/presets` and `/images`. Offerings carry availability and are answered where that is known, above."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.answers import page
from accounts.api.lists import listed, parameters
from accounts.api.requests import me
from catalog.api import answers
from catalog.models import Image, Preset
from catalog.queries import visible_images
from gshare_core.kit.lists import Listing

PRESETS = Listing(orderings={"position": "position", "name": "name"}, default="position", search=("name",))
IMAGES = Listing(orderings={"position": "position", "name": "name"}, default="position", search=("name",))


@extend_schema(operation_id="list_presets", parameters=parameters(PRESETS), responses=page(answers.PresetAnswer))
@api_view(["GET"])
def presets(request: Request) -> Response:
    """The sizes that are offered."""
    return listed(request, Preset.objects.filter(is_active=True), PRESETS, preset_document)


@extend_schema(operation_id="list_images", parameters=parameters(IMAGES), responses=page(answers.ImageAnswer))
@api_view(["GET"])
def images(request: Request) -> Response:
    """The images that are offered to the caller."""
    return listed(request, visible_images(me(request)), IMAGES, image_document)


def preset_document(row: Preset) -> dict[str, Any]:
    """A preset as the API shows it."""
    return {
        "id": str(row.pk),
        "name": row.name,
        "tier": row.tier,
        "cards": row.cards,
        "cpu_milli": row.cpu_milli,
        "memory_mib": row.memory_mib,
        "scratch_gib": row.scratch_gib,
        "position": row.position,
    }


def image_document(row: Image) -> dict[str, Any]:
    """An image as the API shows it."""
    return {
        "id": str(row.pk),
        "name": row.name,
        "reference": row.reference,
        "cuda": row.cuda,
        "apps": row.apps,
        "visibility": row.visibility,
        "organisation": str(row.organisation_id) if row.organisation_id else None,
        "group": str(row.group_id) if row.group_id else None,
    }
