"""UpdateFeatures: raise or lower the level of a feature that the whole cluster has agreed on."""

from __future__ import annotations

from klamm.broker.cluster.features import UpgradeType, update_features
from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


async def handle(
    services: Services, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """All updates are made, or none; of several for one feature the last."""
    updates = request.feature_updates
    if request.has_downgrade_flag:
        types = (UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE)
        updates = [each.but(upgrade_type=types[each.allow_downgrade]) for each in updates]
    latest = {each.feature: each for each in updates}
    refusal = await update_features(services, list(latest.values()), validate_only=request.validate_only)
    if refusal is not None:
        return UpdateFeaturesResponse(error_code=int(refusal.error_code), error_message=refusal.message)
    return UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(each.feature, 0, "NONE") for each in updates]
    )
