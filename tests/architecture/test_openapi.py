"""`docs/openapi.yaml` is what the code says (`make openapi` writes it), and what the code says is what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import translation
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiYamlRenderer
from drf_spectacular.validation import validate_schema

from billing import services as billing
from billing.api import answers as billing_answers
from billing.domain.budgets import Rule
from catalog.api import answers as catalog_answers
from sessions_app.api import answers, reports
from tests.apps.sessions.conftest import world
from tests.apps.sessions.world import World

__all__ = ["world"]
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"
VAGUE = {"/api/v1/schema/"}  # the document itself


@pytest.fixture(scope="module")
def generated() -> dict[str, Any]:
    """The document as the code says it, and every complaint of its generator."""
    GENERATOR_STATS.reset()
    with GENERATOR_STATS.silence(), translation.override("en"):  # whatever another test left active
        schema = SchemaGenerator().get_schema(request=None, public=True)
    complaints = {**GENERATOR_STATS._error_cache, **GENERATOR_STATS._warn_cache}
    GENERATOR_STATS.reset()
    assert not complaints, complaints
    return schema  # type: ignore[no-any-return]


def test_the_document_in_the_repository_is_in_step(generated: dict[str, Any]) -> None:
    with translation.override("en"):
        written = OpenApiYamlRenderer().render(generated, renderer_context={}).decode()
    assert DOCUMENT.read_text(encoding="utf-8") == written, "run make openapi"


def test_the_document_is_valid_openapi(generated: dict[str, Any]) -> None:
    validate_schema(generated)


def test_every_answer_and_body_of_the_api_is_described(generated: dict[str, Any]) -> None:
    vague = []
    for path, methods in generated["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                schemas = [media["schema"] for media in response.get("content", {}).values()]
                if any(schema == {"type": "object", "additionalProperties": {}} for schema in schemas):
                    vague.append(f"{method} {path} {status}")
            if "operationId" not in operation or not operation.get("description"):
                vague.append(f"{method} {path}: no words")
    assert vague == []


def test_every_change_that_moves_money_or_starts_something_asks_for_its_key(generated: dict[str, Any]) -> None:
    keyed = {
        (method.upper(), path)
        for path, methods in generated["paths"].items()
        for method, operation in methods.items()
        for parameter in operation.get("parameters", [])
        if parameter["name"] == "Idempotency-Key" and parameter.get("required")
    }
    assert keyed == {
        ("POST", "/api/v1/sessions"),
        ("POST", "/api/v1/offerings/{offering_id}/prices"),
        ("POST", "/api/v1/wallets/system/issue"),
        ("POST", "/api/v1/wallets/{wallet_id}/allocate"),
        ("POST", "/api/v1/wallets/{wallet_id}/reclaim"),
        ("POST", "/api/v1/wallets/{wallet_id}/adjust"),
        ("POST", "/api/v1/wallets/{wallet_id}/bulk"),
        ("POST", "/api/v1/credit-requests/{request_id}/approve"),
    }


# Answers and their description ----------------------------------------------------------------------------------------


def differences(answer: Any, document: Any, at: str = "") -> list[str]:
    """Where a document has other fields than its answer names, at any depth."""
    if hasattr(answer, "child"):
        if isinstance(document, dict):
            return [found for key, row in document.items() for found in differences(answer.child, row, f"{at}.{key}")]
        return [found for row in document for found in differences(answer.child, row, f"{at}[]")]
    fields = getattr(answer, "fields", None)
    if fields is None or document is None:
        return []
    if set(fields) != set(document):
        return [f"{at}: {sorted(set(fields) ^ set(document))}"]
    return [found for name, field in fields.items() for found in differences(field, document[name], f"{at}.{name}")]


@pytest.mark.django_db
def test_what_the_api_answers_has_exactly_the_fields_of_its_description(world: World) -> None:
    client = Client(headers={"origin": "http://localhost:8000"})
    client.force_login(world.alice.user)
    running, waiting = world.run("L"), world.create("exclusive")
    ask = {"name": "fresh", "group": str(world.alice.group.pk), "image": str(world.image.pk)}
    ask |= {"preset": str(world.presets["M"].pk), "offering": str(world.offering.pk)}

    def of(path: str) -> Any:
        return client.get(f"/api/v1{path}").json()

    def asked(path: str, body: dict[str, Any]) -> Any:
        return client.post(f"/api/v1{path}", body, content_type="application/json").json()

    scope = billing.BudgetScope("user", world.alice.user.pk)
    budget = billing.create_budget(scope=scope, limit=10**9, mode="warn", rule=Rule("UTC"), by=None)
    group = billing.ensure_wallet("group", world.alice.group.pk)
    billing.ask_for_credits(wallet=world.alice.wallet, parent=group, amount=1, reason="more", by=world.alice.user)
    report = "/reports/usage?by=session&from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z"

    lists = {
        "/budgets": billing_answers.BudgetAnswer,
        "/credit-requests": billing_answers.RequestAnswer,
        "/sessions": answers.SessionAnswer,
        "/queue": answers.SessionAnswer,
        "/offerings": answers.OfferingAnswer,
        "/presets": catalog_answers.PresetAnswer,
        "/images": catalog_answers.ImageAnswer,
        "/wallets": billing_answers.WalletAnswer,
        f"/wallets/{world.alice.wallet}/entries": billing_answers.EntryAnswer,
    }
    documents = [(f"{path}[]", answer(), row) for path, answer in lists.items() for row in of(path)["results"]]
    assert {name for name, _answer, _row in documents} == {f"{path}[]" for path in lists}
    documents += [
        ("running", answers.SessionAnswer(), of(f"/sessions/{running.pk}")),
        ("waiting", answers.SessionAnswer(), of(f"/sessions/{waiting.pk}")),
        ("timeline", answers.TimelineAnswer(many=True), of(f"/sessions/{running.pk}/timeline")),
        ("forecast", billing_answers.ForecastAnswer(), of(f"/budgets/{budget.pk}/forecast")),
        ("report", reports.UsageAnswer(), of(report)),
        ("summary", reports.SummaryAnswer(), of(f"/sessions/{running.pk}/summary")),
        ("link", answers.LinkAnswer(), asked(f"/sessions/{running.pk}/access", {"app": "lab"})),
        ("preview", answers.PreviewAnswer(), asked("/sessions/preview", ask)),
        ("me", answers.MeAnswer(), of("/me")),
        ("limits", answers.EffectivePolicyAnswer(), of(f"/policies/effective?group={world.alice.group.pk}")),
    ]
    wrong = [found for name, answer, document in documents for found in differences(answer, document, name)]
    assert wrong == []
