"""Access control of a broker that starts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from klamm.access.rights import Rights
from klamm.broker.security.audit import Denials
from klamm.broker.security.authorizer import AclAuthorizer
from klamm.broker.security.stored_acls import AclFollower

if TYPE_CHECKING:
    from klamm.broker.cluster.following import ClusterFollower
    from klamm.broker.cluster.image import ClusterImage
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.clock import Clock

_log = logging.getLogger(__name__)


def acl_authorizer(
    config: BrokerConfig, image: ClusterImage, follower: ClusterFollower, clock: Clock
) -> AclAuthorizer:
    """The authorizer with the ACLs of the cluster, now and when they change."""
    named = "" if config.super_users is None else config.super_users.secret
    super_users = [each.strip() for each in named.split(";") if each.strip()]
    for each in super_users:
        if ":" not in each:
            _log.warning("super.users: %r names no type; write User:%s", each, each)
    if not super_users and not config.allow_everyone_if_no_acl_found:
        _log.warning("access control is on, and super.users is empty: no client can create the first ACL")
    authorizer = AclAuthorizer(
        Rights(),
        Denials(clock.now_ms),
        super_users=super_users,
        allow_if_no_acl=config.allow_everyone_if_no_acl_found,
    )
    follower.change_watchers.append(AclFollower(image, authorizer.rights, authorizer.changed))
    return authorizer
