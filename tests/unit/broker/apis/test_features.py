"""Finalized features: what ApiVersions shows of them, and what UpdateFeatures may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from klamm.storage.cluster import FinalizedFeatures
from unit.broker.apis.admin_jar import AdminJar

UPGRADE, SAFE, UNSAFE = 1, 2, 3
NAME = "transaction.version"
GROUPS = "group.version"


def update(
    jar: AdminJar, *updates: FeatureUpdateKey, version: int = 2, dry: bool = False
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=dry)
    answer: UpdateFeaturesResponse = jar.connect().ask(ApiKey.UPDATE_FEATURES, version, request)
    return answer


def shown(jar: AdminJar, version: int = 4) -> tuple[int, Mapping[str, int], Mapping[str, tuple[int, int]]]:
    """(epoch, finalized levels, supported ranges) that a client sees."""
    answer = jar.connect().ask(ApiKey.API_VERSIONS, version, ApiVersionsRequest("klamm", "1"))
    return (
        answer.finalized_features_epoch,
        {each.name: each.max_version_level for each in answer.finalized_features if each.name != GROUPS},
        {each.name: (each.min_version, each.max_version) for each in answer.supported_features},
    )


def test_a_new_cluster_begins_with_transactions_of_version_2(jar: AdminJar) -> None:
    assert shown(jar) == (0, {NAME: 2}, {NAME: (0, 2), GROUPS: (0, 1)})
    assert jar.services.image.features.levels == {NAME: 2, GROUPS: 1}
    # Java's clients before 4.0 fail on a supported range from 0 on, so version 3 leaves it out
    assert shown(jar, 3) == (0, {NAME: 2}, {})


def test_a_level_that_was_set_holds_for_clients_and_survives_a_restart(
    jar: AdminJar, restart: Callable[[AdminJar], AdminJar]
) -> None:
    answer = update(jar, FeatureUpdateKey(NAME, 1, SAFE))
    assert (answer.error_code, answer.error_message) == (0, None)
    assert shown(jar)[:2] == (1, {NAME: 1})
    assert jar.services.image.transaction_version == 1
    again = restart(jar)
    assert shown(again)[:2] == (1, {NAME: 1})


def test_level_0_is_not_shown_as_finalized(jar: AdminJar) -> None:
    assert update(jar, FeatureUpdateKey(NAME, 0, UNSAFE)).error_code == 0
    assert shown(jar)[:2] == (1, {})
    assert jar.services.image.transaction_version == 0


def test_the_setting_says_how_a_new_cluster_begins(make_jar: Callable[..., AdminJar]) -> None:
    jar = make_jar({NAME: "1"})
    assert shown(jar)[:2] == (0, {NAME: 1})


def test_the_setting_does_not_change_a_cluster_that_exists(make_jar: Callable[..., AdminJar]) -> None:
    jar = make_jar({NAME: "1"})
    jar.close()
    again = make_jar({NAME: "2"}, clock=jar.clock, files=jar.files, cluster=jar.cluster)
    assert shown(again)[:2] == (0, {NAME: 1})


def test_a_level_that_is_there_already_changes_nothing(jar: AdminJar) -> None:
    assert update(jar, FeatureUpdateKey(NAME, 2, UPGRADE)).error_code == 0
    assert shown(jar)[0] == 0


def test_a_request_that_only_validates_changes_nothing(jar: AdminJar) -> None:
    assert update(jar, FeatureUpdateKey(NAME, 1, SAFE), dry=True).error_code == 0
    assert update(jar, FeatureUpdateKey(NAME, 1, UPGRADE), dry=True).error_code != 0
    assert shown(jar)[:2] == (0, {NAME: 2})


@pytest.mark.parametrize(
    ("name", "level", "upgrade_type", "why"),
    [
        (NAME, 1, UPGRADE, "Can't downgrade the version of this feature without setting the upgrade type to "
                           "either safe or unsafe downgrade."),
        (NAME, 3, UPGRADE, "Local controller 1 only supports versions 0-2"),
        (NAME, -1, SAFE, "A feature version cannot be less than 0."),
        (NAME, 2, 0, "The controller does not support the given upgrade type."),
        (NAME, 2, 7, "The controller does not support the given upgrade type."),
        ("foo", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("foo", 0, UNSAFE, "Feature foo not found."),
        ("metadata.version", 30, UPGRADE, "Local controller 1 does not support this feature."),
    ],
)  # fmt: skip
def test_updates_are_refused_as_kafka_refuses_them(
    jar: AdminJar, name: str, level: int, upgrade_type: int, why: str
) -> None:
    # One that would be fine alone is not made either
    answer = update(jar, FeatureUpdateKey(NAME, 0, UNSAFE), FeatureUpdateKey(name, level, upgrade_type))
    assert answer.error_code == ErrorCode.invalid_update_version
    assert answer.error_message == (
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {level} for feature {name}. {why}"
    )
    assert shown(jar)[:2] == (0, {NAME: 2})


def test_a_downgrade_leads_down(jar: AdminJar) -> None:
    update(jar, FeatureUpdateKey(NAME, 1, SAFE))
    answer = update(jar, FeatureUpdateKey(NAME, 2, SAFE))
    assert answer.error_message is not None
    assert answer.error_message.endswith("Can't downgrade to a newer version.")


def test_version_0_has_a_flag_for_downgrades_and_names_each_feature_in_its_answer(jar: AdminJar) -> None:
    refused = update(jar, FeatureUpdateKey(NAME, 1, allow_downgrade=False), version=0)
    assert (refused.error_code, list(refused.results)) == (ErrorCode.invalid_update_version, [])
    done = update(jar, FeatureUpdateKey(NAME, 1, allow_downgrade=True), version=0)
    (result,) = done.results
    assert (done.error_code, result.feature, result.error_code, result.error_message) == (0, NAME, 0, "NONE")
    assert shown(jar)[:2] == (1, {NAME: 1})


def test_an_update_that_another_broker_overtook_is_decided_anew(jar: AdminJar) -> None:
    # Given another broker that lowered the level, of which this one has not heard
    jar.cluster.finalize_features({NAME: 1}, expected_epoch=0)
    # When a client asks for an upgrade, then it is refused or made on what is true now
    assert update(jar, FeatureUpdateKey(NAME, 0, SAFE)).error_code == 0
    assert jar.cluster.features() == FinalizedFeatures(2, {})
    assert shown(jar)[:2] == (2, {})


def test_of_two_updates_of_a_feature_the_last_counts_and_both_are_answered(jar: AdminJar) -> None:
    refused, good = FeatureUpdateKey(NAME, -1), FeatureUpdateKey(NAME, 1, SAFE)
    answer = update(jar, refused, good, version=1)
    assert (answer.error_code, [each.feature for each in answer.results]) == (0, [NAME, NAME])
    assert shown(jar)[:2] == (1, {NAME: 1})
    assert update(jar, good, refused).error_code == ErrorCode.invalid_update_version
