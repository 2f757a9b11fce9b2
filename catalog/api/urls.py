"""Paths below `/api/v1/` that the catalogue answers."""

from django.urls import path

from catalog.api import catalogue, prices

urlpatterns = [
    path("presets", catalogue.presets),
    path("images", catalogue.images),
    path("offerings/<uuid:offering_id>/prices", prices.prices),
]
